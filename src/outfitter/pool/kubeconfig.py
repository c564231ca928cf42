"""Where a cluster is and who we are there: a kubeconfig, the service account of a pod, or a URL.

A URL is for `kubectl proxy`, which knows every way to log in. Secrets stay in memory.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..errors import EngineFailed
from ..formats import yaml
from ..record import record, replace
from .certificate import in_memory

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping
    from typing import Any

    Json = Mapping[str, Any]  # of a file of people's

_SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_FILE_BYTES = 4 << 20  # of a kubeconfig: hundreds of clusters
_PLUGIN_SECONDS = 60.0  # for a program that logs in, some of which ask a service of their cloud
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_HELP = "name a context of your kubeconfig in `address`, or the URL of `kubectl proxy`"


@record
class Access:
    """A cluster, and who we are there. Certificates and keys are PEM."""

    hidden = ("key", "plugin_env", "token")

    server: str  # https://HOST:PORT
    namespace: str = "default"
    authority: str = ""  # empty: the machine's
    server_name: str = ""  # in its certificate, if that is not its host
    insecure: bool = False
    token: str = ""
    token_file: str = ""  # read anew for each request: the kubelet renews it
    certificate: str = ""
    key: str = ""
    plugin: tuple[str, ...] = ()  # a program that logs in
    plugin_env: tuple[tuple[str, str], ...] = ()
    plugin_version: str = "client.authentication.k8s.io/v1"


def found(address: str, environ: Mapping[str, str]) -> Access:
    """What an `address` means. Raises EngineFailed."""
    if address.startswith(("http://", "https://")):
        return _at(address)
    paths = [path for path in environ.get("KUBECONFIG", "").split(":") if path]
    usual = os.path.join(environ.get("HOME", ""), ".kube", "config")
    paths = paths or ([usual] if os.path.exists(usual) else [])
    if paths:
        return chosen([(os.path.dirname(path), _read(path)) for path in paths], address)
    if address:
        raise EngineFailed(f"there is no kubeconfig in which {address!r} could be: set KUBECONFIG")
    return _inside(environ)


def _at(url: str) -> Access:
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise EngineFailed(f"{url} has no TLS and is not this machine: use https://, or `kubectl proxy` here")
    return Access(f"{parts.scheme}://{parts.netloc}", parts.path.strip("/") or "default")


def _inside(environ: Mapping[str, str]) -> Access:
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise EngineFailed(f"no cluster is known here: {_HELP}")
    namespace = _read(f"{_SERVICE_ACCOUNT}/namespace").strip()
    host = f"[{host}]" if ":" in host else host
    return Access(
        f"https://{host}:{port}",
        namespace,
        _read(f"{_SERVICE_ACCOUNT}/ca.crt"),
        token_file=f"{_SERVICE_ACCOUNT}/token",
    )


def chosen(files: list[tuple[str, str]], context: str) -> Access:
    """Of kubeconfigs, each with the folder of its paths: the first that names something counts. Raises
    EngineFailed."""
    documents = []
    for folder, text in files:
        try:
            document = yaml.parse(text)
        except ValueError as error:
            raise EngineFailed(f"a kubeconfig cannot be read: {error}") from None
        if isinstance(document, dict):
            documents.append((folder, document))
    context = context or next(
        (doc["current-context"] for _, doc in documents if doc.get("current-context")), ""
    )
    if not context:
        raise EngineFailed(f"the kubeconfig has no current context: {_HELP}")
    _, chosen_context = _named(documents, "contexts", "context", context)
    folder, cluster = _named(documents, "clusters", "cluster", str(chosen_context.get("cluster", "")))
    server = str(cluster.get("server", "")).rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise EngineFailed(f"cluster {chosen_context.get('cluster')!r} of the kubeconfig has no server")
    access = Access(
        server,
        str(chosen_context.get("namespace") or "default"),
        _pem(folder, cluster, "certificate-authority"),
        str(cluster.get("tls-server-name", "")),
        cluster.get("insecure-skip-tls-verify") == "true",
    )
    if server.startswith("http://"):
        _at(server)
    user = str(chosen_context.get("user", ""))
    return _as(access, user, *_named(documents, "users", "user", user)) if user else access


def _as(access: Access, name: str, folder: str, user: Json) -> Access:
    if "auth-provider" in user or "username" in user:
        raise EngineFailed(
            f"user {name!r} of the kubeconfig logs in in a way that Kubernetes has dropped: use a token, a "
            "certificate or an `exec` program, or the URL of `kubectl proxy`"
        )
    program = user.get("exec") or {}
    words = [str(program["command"]), *map(str, program.get("args") or ())] if program.get("command") else []
    if words and os.sep in words[0]:
        words[0] = os.path.join(folder, words[0])
    return replace(
        access,
        token=str(user.get("token", "")),
        token_file=os.path.join(folder, str(user["tokenFile"])) if user.get("tokenFile") else "",
        certificate=_pem(folder, user, "client-certificate"),
        key=_pem(folder, user, "client-key"),
        plugin=tuple(words),
        plugin_env=tuple((str(one["name"]), str(one["value"])) for one in program.get("env") or ()),
        plugin_version=str(program.get("apiVersion") or access.plugin_version),
    )


def _named(
    documents: list[tuple[str, dict[str, Any]]], kind: str, member: str, name: str
) -> tuple[str, Json]:
    for folder, document in documents:
        for one in document.get(kind) or ():
            if one.get("name") == name:
                return folder, one.get(member) or {}
    raise EngineFailed(f"the kubeconfig has no {member} {name!r}: {_HELP}")


def _pem(folder: str, told: Json, name: str) -> str:
    """A file's text, which stands beside the other members, or a path to it. Raises EngineFailed."""
    data = told.get(f"{name}-data")
    if data:
        import base64

        try:
            return base64.b64decode(str(data), validate=True).decode("ascii")
        except ValueError:
            raise EngineFailed(f"`{name}-data` of the kubeconfig is no base64 of a PEM file") from None
    return _read(os.path.join(folder, str(told[name]))) if told.get(name) else ""


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(_FILE_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise EngineFailed(f"{path} cannot be read: {reason}") from None


# Logging in


def logged_in(access: Access, environ: Mapping[str, str]) -> Access:
    """With the token or the certificate that a kubeconfig's program gives. Blocks. Raises EngineFailed."""
    if not access.plugin:
        return access
    asked = {"apiVersion": access.plugin_version, "kind": "ExecCredential", "spec": {"interactive": False}}
    environ = {**environ, **dict(access.plugin_env), "KUBERNETES_EXEC_INFO": json.dumps(asked)}
    try:
        done = subprocess.run(
            access.plugin, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PLUGIN_SECONDS, env=environ
        )
        status = json.loads(done.stdout)["status"] if not done.returncode else None
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError) as error:
        raise EngineFailed(f"{access.plugin[0]}, which logs in to the cluster, failed: {error}") from None
    if not isinstance(status, dict):
        said = " ".join(done.stderr.decode("utf-8", "replace").split())[-500:]
        raise EngineFailed(f"{access.plugin[0]}, which logs in to the cluster, failed: {said}")
    return replace(
        access,
        token=str(status.get("token", "")),
        certificate=str(status.get("clientCertificateData", "")),
        key=str(status.get("clientKeyData", "")),
    )


def token_of(access: Access) -> str:
    """What a request shows. Raises EngineFailed."""
    return _read(access.token_file).strip() if access.token_file and not access.token else access.token


def context_of(access: Access) -> ssl.SSLContext | None:
    """None without TLS. Raises EngineFailed."""
    if not access.server.startswith("https://"):
        return None
    import ssl

    try:
        context = ssl.create_default_context(cadata=access.authority or None)
        if access.insecure:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if access.certificate:
            files = in_memory(access.certificate), in_memory(access.key)
            try:
                context.load_cert_chain(*(f"/dev/fd/{fd}" for fd in files))
            finally:
                for fd in files:
                    os.close(fd)
    except (ssl.SSLError, ValueError) as error:
        raise EngineFailed(f"the certificates of {access.server} cannot be used: {error}") from None
    return context

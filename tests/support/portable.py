"""Which tests say nothing where Linux's own abilities are missing (`make test-portable`), and why.

A test that is not named here passes on both kinds of system.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from outfitter.system import LINUX

HERE = Path(__file__).resolve().parent.parent

# Files and single tests, by the reason. A name that ends in / stands for all below it.
ONLY_LINUX: dict[str, tuple[str, ...]] = {
    "it tells what is in /proc": (
        "cli/test_cp.py::test_a_failure_of_a_tree_names_its_destination",
        "host/tools/test_capture.py::test_it_has_nothing_to_read_and_no_terminal",
        "host/tools/test_capture.py::test_secrets_of_a_script_that_never_reports_are_masked_too",
        "host/test_files.py::test_copy_of_a_large_file_and_of_one_without_a_size",
        "host/test_files.py::test_file_of_proc_that_does_not_know_its_size_is_read_to_its_end",
        "host/test_files.py::test_file_of_another_mount_namespace_is_written_there",
        "host/test_files.py::test_folder_that_cannot_be_made_where_everything_else_exists_is_no_endless_loop",
        "host/test_files.py::test_name_that_only_the_kernel_can_follow_is_written",
        "host/test_pty.py::test_terminal_is_the_controlling_one_on_all_three_descriptors",
        "host/test_watchdog.py::test_watchdog_is_one_idle_shell",
        "server/test_tokens.py::test_pipe_may_bring_a_token",
        "server/test_watching.py::test_refusals[/proc]",
        "server/test_watching.py::test_what_cannot_be_waited_for_is_not_watched[outfitter-in /proc]",
        "server/test_search.py::test_what_the_kernel_does_not_let_us_read_is_told",
        "end_to_end/test_contract.py::test_a_command_sees_no_pipe_and_no_descriptor_of_ours",
        "end_to_end/test_users.py::test_a_command_that_becomes_another_user_has_its_proxy",
        "contract/test_keptoverlays.py::test_a_folder_that_cannot_be_written_to_is_told",
        "providers/test_inherited.py::test_a_variable_that_the_interpreter_made_up_is_not_inherited",
        "providers/test_login.py::test_shell_has_no_input_no_terminal_and_its_own_session",
        "providers/test_inherited.py::test_the_same_variable_is_inherited_when_it_was_given",
        "end_to_end/test_startup_files.py::test_what_bash_lists_with_is_left_as_it_was",
    ),
    "/proc tells the LC_CTYPE that Python has made up from one that was given": (
        "test_examples.py::test_an_example_prints_what_it_should[explain_project.py]",
        "cli/test_run_elsewhere.py::test_a_server_that_we_start_has_no_variable_that_python_made_up",
    ),
    "bash lists its variables without a fork by way of /proc": (
        "end_to_end/test_startup_files.py::test_bash_forks_for_a_repair_only_where_it_must",
    ),
    "script(1) of Linux needs signalfd, and that of a Mac has other flags": (
        "end_to_end/test_wrappers.py::test_the_shell_in_the_command_of_script_reads_nothing",
        "end_to_end/test_wrappers.py::test_the_shell_that_script_starts_by_itself_reads_nothing",
        "end_to_end/test_wrappers.py::test_what_keeps_an_interactive_ksh_quiet_reaches_it_in_the_command_of_script",
    ),
    "only Linux tells how much a pipe holds": (
        "cli/test_run_elsewhere.py::test_sigterm_ends_the_command_though_nobody_reads_its_output",
    ),
    "/dev/fd is in /proc, which a Mac does not need for it": (
        "cli/test_env_lock.py::test_lock_may_come_through_a_pipe",
        "pool/test_certificate.py::test_servers_of_a_slot_show_its_certificate_and_keep_its_key",
        "pool/test_kubeconfig.py::test_certificates_are_used_from_memory_and_secrets_are_not_shown",
        "pool/test_kubernetes.py",
    ),
    "Python cannot set back two signals of Linux's C library": (
        "host/test_spawn.py::test_child_has_no_signal_blocked_or_ignored",
    ),
    "a sandbox is refused, which doctor warns of": (
        "cli/test_doctor.py::test_a_summary_has_only_the_problems_a_line_for_each",
    ),
    "systemd is Linux's": ("cli/test_service.py::test_systemd_accepts_the_unit",),
    "it starts its command by Linux's own way": (
        "server/test_fence.py::test_who_froze_after_it_was_asked_starts_nothing",
    ),
    "it mounts something": (
        "host/test_files.py::test_file_that_is_a_mount_is_filled_in_place",
        "server/test_watching.py::test_what_was_mounted_is_told_as_gone_and_what_it_hid_is_watched",
    ),
    "statx tells when a file was made": (
        "contract/setup/test_setups.py::test_a_worktree_that_was_made_again_is_set_up_again",
        "host/test_files.py::test_birth_is_told_whether_links_are_followed_or_not",
    ),
    "extended attributes are not kept": (
        "host/test_files.py::TestWriting::test_mode_owner_and_attributes_stay",
    ),
    "names change places by a call of Linux's": (
        "server/test_watching.py::test_two_files_that_change_places_stay",
        "server/test_watching.py::test_two_folders_that_change_places_stay_and_are_watched",
    ),
    "it counts what inotify watches": (
        "host/watch/test_tree.py",
        "server/test_watching.py::test_events_that_the_kernel_lost_are_told_and_the_tree_is_watched_again",
        "server/test_watching.py::test_one_instance_serves_all_connections_and_is_left_empty",
        "server/test_watching.py::test_patterns_are_neither_told_nor_watched",
        "server/test_watching.py::test_too_large_a_tree_is_refused_and_one_that_grows_too_large_is_told",
    ),
    "who only looks sees neither what came and went nor that a folder was touched": (
        "server/test_watching.py::test_what_is_waited_for_is_told_once[outfitter-there for a moment]",
        "server/test_watching.py::test_what_is_waited_for_is_told_once[outfitter-folder's folder touched]",
    ),
    "a killed writer leaves its temporary name": (
        "host/test_files.py::test_writer_that_is_killed_half_way_leaves_the_old_content_and_no_other_name",
    ),
    "pipes are as wide as the system makes them": (
        "host/test_process.py::test_user_who_has_pipes_enough_keeps_the_usual_one",
        "observe/test_audit.py::test_line_that_was_torn_spoils_no_other",
    ),
    "the mark is a variable of the environment, not a limit": (
        "end_to_end/test_transcripts.py::test_recorded_conversation_is_reproduced[17-env-policy-outfitter]",
        "test_local.py::test_run_takes_directory_environment_and_policy",
        "test_sync.py::test_local_takes_an_environment",
        "test_examples.py::test_an_example_prints_what_it_should[explain_environment.py]",
        "client/test_environment.py::test_summaries_come_with_a_command_when_they_were_asked_for",
        "client/test_over_every_way.py::test_environment_is_the_executors_with_ours_on_top",
        "contract/test_answers.py::test_explain_agrees_with_the_child_whoever_asks",
        "providers/test_login.py::test_mark_of_a_server_is_on_what_startup_files_start",
        "host/test_spawn.py::test_mark_is_in_the_child_and_not_in_us",
        "host/test_tree.py::test_ourselves_and_the_unmarked_are_never_found",
    ),
    "a variable with = in its name is refused": (
        "host/test_spawn.py::test_environment_is_exactly_what_was_given",
    ),
    "prlimit sets what another process may do": (
        "end_to_end/test_exhaustion.py::test_session_ends_with_its_commands_when_no_descriptor_is_left",
        "end_to_end/test_exhaustion.py::test_whoever_connects_when_none_is_left_is_told",
        "end_to_end/test_orphans.py::test_orderly_end_finds_a_daemon_that_removed_its_mark",
        "end_to_end/test_robustness.py::test_descriptors_that_run_out_are_an_error_of_one_request",
    ),
    "children have our own limit on open files": (
        "host/test_spawn.py::test_raised_limit_of_files_is_ours_alone",
    ),
    "programs get no descriptors of ours": (
        "host/test_spawn.py::test_descriptors_of_ours_are_its_own_from_3_on_whatever_their_numbers",
        "host/test_spawn.py::test_a_descriptor_that_is_not_open_is_no_launch",
    ),
    "poll(2) itself fails when no file may be open": (
        "host/test_tree.py::test_session_that_cannot_be_looked_for_is_ended_later",
    ),
    "it makes a zombie by waitid(2)": ("host/test_tree.py::test_zombie_is_not_alive",),
    "servers are copies of one process": ("pool/test_template.py",),
    "a process can adopt orphans": (
        "host/test_orphans.py::test_who_is_left_alone_is_a_child",
        "end_to_end/test_orphans.py::test_who_was_there_before_the_server_is_not_its_own_to_end",
    ),
    "epoll says it, other ways do not": (
        "test_loop.py::test_watch_that_could_not_be_ended_calls_nobody_and_ends",
        "test_pace.py::test_end_of_one_that_is_set_aside_is_seen",
    ),
    "`subprocess`, which starts programs there, imports them": (
        "host/test_tree.py::test_a_kill_imports_no_enums",
        "cli/test_quickrun.py::test_plain_run_imports_no_heavy_module",
        "cli/test_quickrun.py::test_plain_run_in_a_project_of_python_imports_none_either",
        "cli/test_quickrun.py::test_plain_run_in_a_project_that_was_allowed_imports_none_either",
        "cli/test_quickon.py::test_plain_run_imports_no_heavy_module",
        "test_exports.py::test_serving_does_not_import_what_is_slow",
        "test_exports.py::test_server_loads_what_most_never_need_with_its_first_use",
    ),
    "who follows a command is known by its number alone": (
        "cli/test_records.py::test_pid_that_is_used_again_holds_nothing",
        "cli/test_records.py::test_process_that_has_ended_holds_nothing",
    ),
    "access lists are another kind there": (
        "cli/test_init.py::test_an_access_list_stays_and_the_folders_gives_nobody_more",
    ),
    "it makes a namespace": (
        "transport/test_unix.py::test_in_a_namespace_of_users_what_is_roots_may_be_nobodys",
        "transport/test_caller.py::test_user_of_another_namespace_is_not_known",
    ),
    "the stand-in for lsof names a process for it all the same": (
        "transport/test_caller.py::test_connection_that_no_process_has_accepted_is_nobodys",
    ),
    "a sandbox is refused": (
        "test_docstrings.py::test_an_example_does_what_it_says[outfitter.Sandbox]",
        "test_docstrings.py::test_an_example_does_what_it_says[outfitter.Sandbox.read_only]",
        "test_docstrings.py::test_an_example_does_what_it_says[outfitter.client.files.Files.within]",
        "test_docstrings.py::test_an_example_does_what_it_says[outfitter.sync.Files.within]",
        "test_examples.py::test_an_example_prints_what_it_should[decide_network.py]",
        "test_examples.py::test_an_example_prints_what_it_should[sandbox.py]",
        "attacks/",
        "host/sandbox/",
        "server/test_confined_files.py",
        "server/test_sandbox.py",
        "server/test_wrapping.py",
        "client/test_sandbox.py",
        "cli/test_agents.py::test_agent_can_be_confined_on_the_executor",
        "contract/setup/test_confined.py",
        "cli/test_run_sandbox.py",
        "cli/test_sandbox.py",
        "cli/test_confined_providers.py",
        "end_to_end/test_files_and_mounts.py",
        "end_to_end/test_sandbox_codex.py",
        "end_to_end/test_sandbox_differential.py",
        "end_to_end/test_sandbox_effects.py",
        "end_to_end/test_confined_files_differential.py",
        "end_to_end/test_managed_network.py",
    ),
    "Codex for Linux does not start without epoll or /proc": ("end_to_end/test_stock_codex.py",),
    "startup files are not masked": (
        "server/test_descendants.py",
        "host/test_masks.py",
    ),
    "a server is not replaced while it runs": (
        "end_to_end/test_observe.py::test_collector_gets_spans_and_metrics_across_an_upgrade",
        "end_to_end/test_upgrade.py",
        "end_to_end/test_upgrade_codex.py",
        "cli/test_upgrade.py",
        "cli/test_announce.py::test_a_server_that_replaces_itself_says_no_second_first_line",
        "client/test_token.py::test_a_token_is_read_again_when_the_client_dials_again",
        "host/test_reexec.py",
    ),
    "commands do not run as another user": (
        "end_to_end/test_run_as.py",
        "host/test_identity.py::test_files_and_children_are_the_other_users_and_the_server_stays_roots",
        "host/test_starter.py",
    ),
    "files are not frozen": (
        "host/tools/test_frozen.py",
        "contract/test_frozen.py",
        "host/tools/test_ahead.py",
    ),
    "the module is for Linux": (
        "test_stdlib.py::test_name_is_the_public_object_itself[pidfd_send_signal]",
        "host/watch/test_inotify.py",
        "host/test_sealed.py",
        "host/test_statx.py",
    ),
    "there are no control groups": (
        "host/test_cgroup.py",
        "server/test_services.py::test_tools_in_a_sandbox_get_the_limits_of_commands[settings3-allowance3]",
    ),
    "a look by lsof is told as a stall on a busy machine": (
        "server/test_operating.py::test_log_at_info_tells_peer_and_session_and_no_more",
    ),
    "a hundred looks by lsof take longer than strangers may": (
        "end_to_end/test_robustness.py::test_many_idle_connections_harm_nobody",
    ),
    "it makes calls of Linux's C library fail, epoll and pidfd among them": ("end_to_end/test_faults.py",),
    "what others see of a server is what the system shows": (
        "host/test_guard.py::test_a_process_of_the_same_user_cannot_look_into_the_server",
        "host/test_guard.py::test_the_environment_is_gone_from_where_the_kernel_shows_it",
    ),
    "it asks for more files than `scripts/portable` leaves": (
        "host/test_descriptors.py::test_each_has_a_share_and_some_are_kept[4096-960-240-2640]",
    ),
    "who goes first when memory is short is told in /proc": (
        "host/test_limits.py::test_who_takes_more_than_there_is_for_all_of_them_fails",
    ),
    "only its keeper can wait for a server: the pool notices its end by the connection": (
        "pool/test_local.py::TestLocal::test_a_slot_whose_keeper_is_killed_is_gone",
        "pool/test_relayed.py::TestLocalThroughARelay::test_a_slot_whose_keeper_is_killed_is_gone",
    ),
    "TCP_CORK is Linux's": (
        "transport/test_tls.py::test_the_end_of_tls_is_noticed_behind_a_message_and_without_the_end_of_tcp",
    ),
}


def unmarked(printed: bytes) -> bytes:
    """What a command has printed of its environment, without our mark, which is a variable there."""
    return printed if LINUX else re.sub(rb"(?m)(^|(?<=\0))OUTFITTER_MARK=\d+\r?[\0\n]", b"", printed)


class _Left(pytest.Module):
    """A file whose tests are left out: it may not even be importable here."""

    reason = ""

    def collect(self) -> Iterator[pytest.Item]:
        pytest.skip(f"Linux only: {self.reason}", allow_module_level=True)


def _reason(name: str) -> str | None:
    for reason, places in ONLY_LINUX.items():
        for place in places:
            if name == place or (place.endswith("/") and name.startswith(place)):
                return reason
    return None


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    if LINUX or not module_path.is_relative_to(HERE):
        return None
    reason = _reason(str(module_path.relative_to(HERE)))
    if reason is None:
        return None
    left: _Left = _Left.from_parent(parent, path=module_path)
    left.reason = reason
    return left


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if LINUX:
        return
    for item in items:
        name = item.nodeid.removeprefix("tests/")
        reason = _reason(name) or _reason(name.partition("[")[0])
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=f"Linux only: {reason}"))

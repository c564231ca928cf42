/* The limit: the work a command needs, and nothing else.
 *
 *   bare rpc                 a loopback server: one line of tab-separated argv in, one line of exit status out
 *   bare par WIDTH SECONDS   `true` with WIDTH in flight; prints commands per second
 *   bare many COUNT          starts `sleep 60` COUNT times; prints milliseconds until all are started
 *   bare pipe BYTES          reads `head -c BYTES /dev/zero` in 64 KiB pieces; prints MB per second
 *
 * "The work" is what every exec-server must do too: two pipes, a spawn in a new session, reading both pipes
 * to their end, and reaping.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PIECE 65536
#define MAX_WIDTH 256
#define MAX_ARGS 32

struct child {
    pid_t pid;
    int fd[2]; /* stdout, stderr; -1 once at its end */
};

static char *child_env[] = {"PATH=/usr/bin:/bin", NULL};
static char buffer[PIECE];

static void die(const char *what) {
    fprintf(stderr, "bare: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void start(struct child *child, char **argv) {
    int out[2], err[2];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;

    if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) die("pipe");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    errno = posix_spawnp(&child->pid, argv[0], &actions, &attributes, argv, child_env);
    if (errno) die(argv[0]);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(out[1]);
    close(err[1]);
    child->fd[0] = out[0];
    child->fd[1] = err[0];
}

static int reap(struct child *child) {
    int status;
    if (waitpid(child->pid, &status, 0) < 0) die("waitpid");
    child->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* One read of a ready pipe; bytes read, 0 at the end. */
static long take(struct child *child, int which) {
    long n = read(child->fd[which], buffer, sizeof buffer);
    if (n < 0) die("read");
    if (n == 0) {
        close(child->fd[which]);
        child->fd[which] = -1;
    }
    return n;
}

static int run(char **argv, double *bytes) {
    struct child child;
    start(&child, argv);
    while (child.fd[0] >= 0 || child.fd[1] >= 0) {
        /* poll() skips negative descriptors. */
        struct pollfd ready[2] = {{child.fd[0], POLLIN, 0}, {child.fd[1], POLLIN, 0}};
        if (poll(ready, 2, -1) < 0) die("poll");
        for (int which = 0; which < 2; which++)
            if (child.fd[which] >= 0 && ready[which].revents) *bytes += take(&child, which);
    }
    return reap(&child);
}

static void answer(int client) {
    static char line[PIECE];
    size_t used = 0;
    for (;;) {
        ssize_t n = read(client, line + used, sizeof line - 1 - used);
        if (n <= 0) return;
        used += n;
        line[used] = 0;
        char *end = strchr(line, '\n');
        if (!end) {
            if (used == sizeof line - 1) return;
            continue;
        }
        *end = 0;
        char *argv[MAX_ARGS + 1], *rest = line;
        int argc = 0;
        while (argc < MAX_ARGS && (argv[argc] = strsep(&rest, "\t"))) argc++;
        argv[argc] = NULL;
        double bytes = 0;
        char reply[64];
        int length = snprintf(reply, sizeof reply, "%d\n", run(argv, &bytes));
        if (write(client, reply, length) != length) return;
        used = 0; /* one request in flight per connection */
    }
}

static void serve(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (listener < 0 || bind(listener, (void *)&address, size) || listen(listener, 8)) die("listen");
    if (getsockname(listener, (void *)&address, &size)) die("getsockname");
    printf("tcp://127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0) die("accept");
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        answer(client);
        close(client);
    }
}

/* Starts a child; returns a descriptor that is readable when it has exited. A blocking waitpid() after the
 * pipes have ended would make all others wait while this one is still being taken down. */
static int watched(struct child *child, char **argv) {
    start(child, argv);
    int exits = syscall(SYS_pidfd_open, child->pid, 0);
    if (exits < 0) die("pidfd_open");
    return exits;
}

static void parallel(int width, double seconds) {
    static struct child children[MAX_WIDTH];
    static struct pollfd ready[3 * MAX_WIDTH];
    static int exits[MAX_WIDTH];
    char *argv[] = {"true", NULL};
    double begin = now(), end = begin, deadline = begin + seconds;
    long finished = 0;
    int live = 0;

    if (width < 1 || width > MAX_WIDTH) {
        errno = EINVAL;
        die("width");
    }
    for (; live < width; live++) exits[live] = watched(&children[live], argv);
    while (live > 0) {
        for (int i = 0; i < live; i++) {
            for (int which = 0; which < 2; which++)
                ready[3 * i + which] = (struct pollfd){children[i].fd[which], POLLIN, 0};
            ready[3 * i + 2] = (struct pollfd){exits[i], POLLIN, 0};
        }
        if (poll(ready, 3 * live, -1) < 0) die("poll");
        /* From the back, so that filling a gap with the last child moves one already looked at. */
        for (int i = live - 1; i >= 0; i--) {
            for (int which = 0; which < 2; which++)
                if (children[i].fd[which] >= 0 && ready[3 * i + which].revents) take(&children[i], which);
            if (exits[i] >= 0 && ready[3 * i + 2].revents) {
                reap(&children[i]);
                close(exits[i]);
                exits[i] = -1;
            }
            if (children[i].fd[0] >= 0 || children[i].fd[1] >= 0 || exits[i] >= 0) continue;
            finished++;
            end = now();
            if (end < deadline) {
                exits[i] = watched(&children[i], argv);
            } else {
                children[i] = children[--live];
                exits[i] = exits[live];
            }
        }
    }
    printf("%.3f\n", finished / (end - begin));
}

static void drain(char *count) {
    char *argv[] = {"head", "-c", count, "/dev/zero", NULL};
    double bytes = 0, begin = now();
    if (run(argv, &bytes) || bytes != strtod(count, NULL)) {
        errno = EIO;
        die("pipe");
    }
    printf("%.3f\n", bytes / 1e6 / (now() - begin));
}

static void many(int count) {
    char *argv[] = {"sleep", "60", NULL};
    struct child *children = calloc(count, sizeof *children);
    double begin = now(), end;
    if (!children) die("calloc");
    for (int i = 0; i < count; i++) start(&children[i], argv);
    end = now();
    for (int i = 0; i < count; i++) kill(children[i].pid, SIGKILL);
    for (int i = 0; i < count; i++) reap(&children[i]);
    printf("%.3f\n", 1e3 * (end - begin));
}

int main(int argc, char **argv) {
    setenv("PATH", "/usr/bin:/bin", 1); /* posix_spawnp searches the caller's, not the child's */
    if (argc == 2 && !strcmp(argv[1], "rpc"))
        serve();
    else if (argc == 4 && !strcmp(argv[1], "par"))
        parallel(atoi(argv[2]), atof(argv[3]));
    else if (argc == 3 && !strcmp(argv[1], "many"))
        many(atoi(argv[2]));
    else if (argc == 3 && !strcmp(argv[1], "pipe"))
        drain(argv[2]);
    else
        return fprintf(stderr, "usage: bare rpc | par WIDTH SECONDS | many COUNT | pipe BYTES\n"), 2;
    return 0;
}

/* Fails the nth call of one function of the C library, in one process, with a given errno.
 *
 * Preloaded into a server (LD_PRELOAD). What is to fail is said through a file that is mapped here and in the
 * test: see tests/support/faults.py, which has the same layout. The kinds are in the order of the table there.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define KINDS 64

struct control {
    int pid;   /* of the process that is meant; its children have the mapping as well */
    int armed; /* 1 while a call is to fail */
    int kind;  /* which function, */
    int nth;   /* its how-manieth call from now, from 1, */
    int error; /* and with what */
    int fired; /* how many calls have failed */
    int counts[KINDS];
};

static volatile struct control *control;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULTS_FILE");
    int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0) : -1;
    if (fd < 0)
        return;
    void *found = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (found != MAP_FAILED)
        control = found;
}

static int hit(int kind) {
    if (control == NULL || control->pid == 0 || control->pid != (int)getpid())
        return 0;
    int count = __atomic_add_fetch(&control->counts[kind], 1, __ATOMIC_SEQ_CST);
    if (!control->armed || control->kind != kind || control->nth != count)
        return 0;
    control->armed = 0;
    __atomic_add_fetch(&control->fired, 1, __ATOMIC_SEQ_CST);
    errno = control->error;
    return 1;
}

/* RETURN NAME(PARAMETERS), called with ARGUMENTS; FAILED is what it returns when it fails. */
#define WRAP(kind, returned, name, parameters, arguments, failed)                                                     \
    returned name parameters {                                                                                         \
        static returned(*real) parameters;                                                                             \
        if (!real)                                                                                                     \
            real = (returned(*) parameters)dlsym(RTLD_NEXT, #name);                                                    \
        if (hit(kind))                                                                                                 \
            return failed;                                                                                             \
        return real arguments;                                                                                         \
    }

enum {
    OPEN, PIPE, SOCKET, ACCEPT, EPOLL_CTL, EPOLL_WAIT, READ, WRITE, RECV, SEND, CLOSE, DUP, FCNTL, IOCTL, STAT,
    LOOK, OPENDIR, READDIR, MEMFD, SPAWN, THREAD, PIDFD, SYSCALL, LIMIT, OPENPTY, TTYNAME, NAME_, MAKE, TRUNCATE,
    MODE, INOTIFY, POLL, OPTION, SEEK, RANDOM, MAP, KINDS_USED
};

static int opened(int kind, const char *name, int at, const char *path, int flags, mode_t mode) {
    static int (*real)(int, const char *, int, ...);
    (void)name;
    if (!real)
        real = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat64");
    if (hit(kind))
        return -1;
    return real(at, path, flags, mode);
}

#define MODE_OF(flags)                                                                                                 \
    mode_t mode = 0;                                                                                                   \
    if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) {                                                       \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode = va_arg(rest, mode_t);                                                                                   \
        va_end(rest);                                                                                                  \
    }

int open(const char *path, int flags, ...) { MODE_OF(flags) return opened(OPEN, "open", AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE_OF(flags) return opened(OPEN, "open", AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE_OF(flags) return opened(OPEN, "", at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE_OF(flags) return opened(OPEN, "", at, path, flags, mode); }

WRAP(PIPE, int, pipe, (int ends[2]), (ends), -1)
WRAP(PIPE, int, pipe2, (int ends[2], int flags), (ends, flags), -1)
WRAP(SOCKET, int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1)
WRAP(ACCEPT, int, accept, (int fd, struct sockaddr *address, socklen_t *length), (fd, address, length), -1)
WRAP(ACCEPT, int, accept4, (int fd, struct sockaddr *address, socklen_t *length, int flags),
     (fd, address, length, flags), -1)
WRAP(EPOLL_CTL, int, epoll_ctl, (int ep, int op, int fd, struct epoll_event *event), (ep, op, fd, event), -1)
WRAP(EPOLL_WAIT, int, epoll_wait, (int ep, struct epoll_event *events, int most, int timeout),
     (ep, events, most, timeout), -1)
WRAP(READ, ssize_t, read, (int fd, void *data, size_t size), (fd, data, size), -1)
WRAP(READ, ssize_t, pread, (int fd, void *data, size_t size, off_t at), (fd, data, size, at), -1)
WRAP(READ, ssize_t, pread64, (int fd, void *data, size_t size, off64_t at), (fd, data, size, at), -1)
WRAP(READ, ssize_t, preadv2, (int fd, const struct iovec *data, int count, off_t at, int flags),
     (fd, data, count, at, flags), -1)
WRAP(READ, ssize_t, preadv64v2, (int fd, const struct iovec *data, int count, off64_t at, int flags),
     (fd, data, count, at, flags), -1)
WRAP(WRITE, ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size), -1)
WRAP(WRITE, ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at), -1)
WRAP(WRITE, ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at), -1)
WRAP(WRITE, ssize_t, writev, (int fd, const struct iovec *data, int count), (fd, data, count), -1)
WRAP(WRITE, int, eventfd_write, (int fd, unsigned long value), (fd, value), -1)
WRAP(READ, int, eventfd_read, (int fd, unsigned long *value), (fd, value), -1)
WRAP(WRITE, ssize_t, copy_file_range, (int from, off64_t *at, int to, off64_t *there, size_t size, unsigned flags),
     (from, at, to, there, size, flags), -1)
WRAP(WRITE, ssize_t, sendfile64, (int to, int from, off64_t *at, size_t size), (to, from, at, size), -1)
WRAP(RECV, ssize_t, recv, (int fd, void *data, size_t size, int flags), (fd, data, size, flags), -1)
WRAP(SEND, ssize_t, send, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags), -1)
WRAP(SEND, ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags), -1)
WRAP(SEND, int, shutdown, (int fd, int how), (fd, how), -1)

/* Only of a regular file, as a network file system does it; and the descriptor is gone all the same. */
int close(int fd) {
    struct stat found;
    if (control != NULL && control->pid && syscall(SYS_fstat, fd, &found) == 0 && S_ISREG(found.st_mode) && hit(CLOSE)) {
        int error = errno;
        syscall(SYS_close, fd);
        errno = error;
        return -1;
    }
    return (int)syscall(SYS_close, fd);
}

WRAP(DUP, int, dup, (int fd), (fd), -1)
WRAP(DUP, int, dup2, (int fd, int to), (fd, to), -1)
WRAP(DUP, int, dup3, (int fd, int to, int flags), (fd, to, flags), -1)

static int controlled(int fd, int command, void *argument) {
    if (hit(FCNTL))
        return -1;
    return (int)syscall(SYS_fcntl, fd, command, argument);
}
int fcntl(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return controlled(fd, command, argument);
}
int fcntl64(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return controlled(fd, command, argument);
}
int ioctl(int fd, unsigned long request, ...) {
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    if (hit(IOCTL))
        return -1;
    return (int)syscall(SYS_ioctl, fd, request, argument);
}

WRAP(STAT, int, stat, (const char *path, struct stat *found), (path, found), -1)
WRAP(STAT, int, stat64, (const char *path, struct stat64 *found), (path, found), -1)
WRAP(STAT, int, lstat, (const char *path, struct stat *found), (path, found), -1)
WRAP(STAT, int, lstat64, (const char *path, struct stat64 *found), (path, found), -1)
WRAP(STAT, int, fstat, (int fd, struct stat *found), (fd, found), -1)
WRAP(STAT, int, fstat64, (int fd, struct stat64 *found), (fd, found), -1)
WRAP(STAT, int, fstatat, (int at, const char *path, struct stat *found, int flags), (at, path, found, flags), -1)
WRAP(STAT, int, fstatat64, (int at, const char *path, struct stat64 *found, int flags), (at, path, found, flags), -1)
WRAP(STAT, int, statx, (int at, const char *restrict path, int flags, unsigned mask, struct statx *restrict found),
     (at, path, flags, mask, found), -1)
WRAP(LOOK, int, access, (const char *path, int mode), (path, mode), -1)
WRAP(LOOK, int, faccessat, (int at, const char *path, int mode, int flags), (at, path, mode, flags), -1)
WRAP(LOOK, ssize_t, readlink, (const char *path, char *data, size_t size), (path, data, size), -1)
WRAP(LOOK, ssize_t, readlinkat, (int at, const char *path, char *data, size_t size), (at, path, data, size), -1)
WRAP(LOOK, ssize_t, listxattr, (const char *path, char *list, size_t size), (path, list, size), -1)
WRAP(LOOK, ssize_t, flistxattr, (int fd, char *list, size_t size), (fd, list, size), -1)
WRAP(LOOK, ssize_t, getxattr, (const char *path, const char *name, void *value, size_t size),
     (path, name, value, size), -1)
WRAP(OPENDIR, DIR *, opendir, (const char *path), (path), NULL)
WRAP(OPENDIR, DIR *, fdopendir, (int fd), (fd), NULL)
WRAP(READDIR, struct dirent *, readdir, (DIR * folder), (folder), NULL)
WRAP(READDIR, struct dirent64 *, readdir64, (DIR * folder), (folder), NULL)
WRAP(MEMFD, int, memfd_create, (const char *name, unsigned flags), (name, flags), -1)
WRAP(SPAWN, int, posix_spawn,
     (pid_t *restrict pid, const char *restrict path, const posix_spawn_file_actions_t *restrict actions,
      const posix_spawnattr_t *restrict attributes, char *const argv[restrict], char *const envp[restrict]),
     (pid, path, actions, attributes, argv, envp), control->error)
WRAP(THREAD, int, pthread_create,
     (pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*start)(void *),
      void *restrict argument),
     (thread, attributes, start, argument), control->error)
WRAP(PIDFD, int, pidfd_open, (pid_t pid, unsigned flags), (pid, flags), -1)

long syscall(long number, ...) {
    static long (*real)(long, ...);
    va_list rest;
    va_start(rest, number);
    long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long);
    long d = va_arg(rest, long), e = va_arg(rest, long), f = va_arg(rest, long);
    va_end(rest);
    if (!real)
        real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    int meant = number != SYS_close && number != SYS_fstat && number != SYS_fcntl && number != SYS_ioctl &&
                number != SYS_openat;
    if (meant && hit(number == SYS_pidfd_open ? PIDFD : SYSCALL))
        return -1;
    return real(number, a, b, c, d, e, f);
}

WRAP(LIMIT, int, setrlimit, (__rlimit_resource_t kind, const struct rlimit *limit), (kind, limit), -1)
WRAP(LIMIT, int, setrlimit64, (__rlimit_resource_t kind, const struct rlimit64 *limit), (kind, limit), -1)
WRAP(LIMIT, int, prlimit, (pid_t pid, enum __rlimit_resource kind, const struct rlimit *set, struct rlimit *old),
     (pid, kind, set, old), -1)
WRAP(LIMIT, int, prlimit64, (pid_t pid, enum __rlimit_resource kind, const struct rlimit64 *set, struct rlimit64 *old),
     (pid, kind, set, old), -1)
WRAP(OPENPTY, int, openpty,
     (int *ours, int *theirs, char *name, const struct termios *settings, const struct winsize *size),
     (ours, theirs, name, settings, size), -1)
WRAP(TTYNAME, int, ttyname_r, (int fd, char *name, size_t size), (fd, name, size), control->error)
WRAP(NAME_, int, rename, (const char *from, const char *to), (from, to), -1)
WRAP(NAME_, int, renameat, (int at, const char *from, int there, const char *to), (at, from, there, to), -1)
WRAP(NAME_, int, renameat2, (int at, const char *from, int there, const char *to, unsigned flags),
     (at, from, there, to, flags), -1)
WRAP(NAME_, int, linkat, (int at, const char *from, int there, const char *to, int flags),
     (at, from, there, to, flags), -1)
WRAP(NAME_, int, unlink, (const char *path), (path), -1)
WRAP(NAME_, int, unlinkat, (int at, const char *path, int flags), (at, path, flags), -1)
WRAP(NAME_, int, rmdir, (const char *path), (path), -1)
WRAP(MAKE, int, mkdir, (const char *path, mode_t mode), (path, mode), -1)
WRAP(MAKE, int, mkdirat, (int at, const char *path, mode_t mode), (at, path, mode), -1)
WRAP(MAKE, int, mkfifo, (const char *path, mode_t mode), (path, mode), -1)
WRAP(MAKE, int, mkfifoat, (int at, const char *path, mode_t mode), (at, path, mode), -1)
WRAP(MAKE, int, symlink, (const char *target, const char *path), (target, path), -1)
WRAP(TRUNCATE, int, ftruncate, (int fd, off_t length), (fd, length), -1)
WRAP(TRUNCATE, int, ftruncate64, (int fd, off64_t length), (fd, length), -1)
WRAP(TRUNCATE, int, fsync, (int fd), (fd), -1)
WRAP(MODE, int, chmod, (const char *path, mode_t mode), (path, mode), -1)
WRAP(MODE, int, fchmod, (int fd, mode_t mode), (fd, mode), -1)
WRAP(MODE, int, fchmodat, (int at, const char *path, mode_t mode, int flags), (at, path, mode, flags), -1)
WRAP(MODE, int, fchown, (int fd, uid_t user, gid_t group), (fd, user, group), -1)
WRAP(MODE, int, utimensat, (int at, const char *path, const struct timespec times[2], int flags),
     (at, path, times, flags), -1)
WRAP(INOTIFY, int, inotify_init1, (int flags), (flags), -1)
WRAP(INOTIFY, int, inotify_add_watch, (int fd, const char *path, unsigned mask), (fd, path, mask), -1)
WRAP(INOTIFY, int, inotify_rm_watch, (int fd, int watch), (fd, watch), -1)
WRAP(POLL, int, poll, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout), -1)
WRAP(OPTION, int, setsockopt, (int fd, int level, int name, const void *value, socklen_t length),
     (fd, level, name, value, length), -1)
WRAP(OPTION, int, getsockname, (int fd, struct sockaddr *address, socklen_t *length), (fd, address, length), -1)
WRAP(SEEK, off_t, lseek, (int fd, off_t at, int from), (fd, at, from), -1)
WRAP(SEEK, off64_t, lseek64, (int fd, off64_t at, int from), (fd, at, from), -1)
WRAP(RANDOM, ssize_t, getrandom, (void *data, size_t size, unsigned flags), (data, size, flags), -1)
WRAP(MAP, void *, mmap, (void *at, size_t size, int protection, int flags, int fd, off_t from),
     (at, size, protection, flags, fd, from), MAP_FAILED)
WRAP(MAP, void *, mmap64, (void *at, size_t size, int protection, int flags, int fd, off64_t from),
     (at, size, protection, flags, fd, from), MAP_FAILED)

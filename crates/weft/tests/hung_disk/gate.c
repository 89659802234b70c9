/* Preloaded into a data server under test: its disk hangs as long as the test wants.
 *
 *   WEFT_GATE        folder of the gate: while it has a file `write`, `create` or `sync`, calls of
 *                    that kind wait; each that does first adds a line, kind and path, to `waiting`
 *   WEFT_GATE_BELOW  folder of the files that this is about
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Returns when the gate for such calls is open. */
static void pass(const char *kind, const char *path)
{
    const char *gate = getenv("WEFT_GATE"), *below = getenv("WEFT_GATE_BELOW");
    char closed[PATH_MAX], waiting[PATH_MAX], line[PATH_MAX + 64];
    if (!gate || !below || strncmp(path, below, strlen(below)) != 0)
        return;
    snprintf(closed, sizeof closed, "%s/%s", gate, kind);
    if (access(closed, F_OK) != 0)
        return;
    snprintf(waiting, sizeof waiting, "%s/waiting", gate);
    int to = syscall(SYS_openat, AT_FDCWD, waiting, O_WRONLY | O_APPEND | O_CREAT, 0600);
    int bytes = snprintf(line, sizeof line, "%s %s\n", kind, path);
    if (to < 0 || write(to, line, bytes) != bytes)
        abort();
    close(to);
    while (access(closed, F_OK) == 0)
        usleep(10000);
}

static void pass_fd(const char *kind, int fd)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    pass(kind, path);
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t offset)
{
    pass_fd("write", fd);
    return syscall(SYS_pwrite64, fd, data, bytes, offset);
}

int fsync(int fd)
{
    pass_fd("sync", fd);
    return syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    pass_fd("sync", fd);
    return syscall(SYS_fdatasync, fd);
}

int mkdir(const char *path, mode_t mode)
{
    pass("create", path);
    return syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (flags & O_CREAT)
        pass("create", path);
    return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

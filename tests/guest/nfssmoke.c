/* nfssmoke - POSIX smoke test for one folder (meant for an NFS mount). TAP output.
 *   cc -O2 -static -o nfssmoke nfssmoke.c ; nfssmoke DIR
 * A test prints "ok", "not ok" or "ok ... # SKIP why" (operation not supported there).
 * Exit status: number of failed tests (at most 100). */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>
#ifndef FICLONE
#define FICLONE _IOW(0x94, 9, int)
#endif

/* Tests are called t_NAME and return 0, 1 (failed; `why` says at which line) or SKIP. CK wants a true
 * condition, EQ equal numbers, ERR -1 with that errno, UNSUP success or "not supported" (SKIP). */
static int n, bad, skipped;
static char why[512];
static int fail(const char *f, ...) {
    va_list a;
    va_start(a, f);
    vsnprintf(why, sizeof why, f, a);
    va_end(a);
    return 1;
}
#define SKIP 2
#define CK(c)                                                                                      \
    do {                                                                                           \
        if (!(c))                                                                                  \
            return fail("line %d: %s: %s", __LINE__, #c, strerror(errno));                         \
    } while (0)
#define EQ(a, b)                                                                                   \
    do {                                                                                           \
        long long A_ = (a), B_ = (b);                                                              \
        if (A_ != B_)                                                                              \
            return fail("line %d: %s = %lld, want %lld (%s)", __LINE__, #a, A_, B_,                \
                        strerror(errno));                                                          \
    } while (0)
#define ERR(c, e)                                                                                  \
    do {                                                                                           \
        errno = 0;                                                                                 \
        if ((c) != -1 || errno != (e))                                                             \
            return fail("line %d: %s: errno %d (%s), want %s", __LINE__, #c, errno,                \
                        strerror(errno), #e);                                                      \
    } while (0)
#define UNSUP(c)                                                                                   \
    do {                                                                                           \
        if ((c) < 0) {                                                                             \
            if (errno == EOPNOTSUPP || errno == ENOSYS || errno == ENOTTY) {                       \
                fail("%s", strerror(errno));                                                       \
                return SKIP;                                                                       \
            }                                                                                      \
            return fail("line %d: %s: %s", __LINE__, #c, strerror(errno));                         \
        }                                                                                          \
    } while (0)

static void pat(char *b, size_t l, off_t at, unsigned seed) {
    for (size_t i = 0; i < l; i++) {
        uint64_t x = (uint64_t)(at + i) * 0x9E3779B97F4A7C15ull + seed;
        b[i] = (char)(x >> 40);
    }
}
static int put(const char *f, const char *s) {
    int fd = open(f, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    if (fd < 0)
        return -1;
    ssize_t l = strlen(s);
    if (write(fd, s, l) != l) {
        close(fd);
        return -1;
    }
    return close(fd);
}
static int same(const char *f, const char *s) {
    char b[4096];
    int fd = open(f, O_RDONLY);
    if (fd < 0)
        return 0;
    ssize_t r = read(fd, b, sizeof b);
    close(fd);
    return r == (ssize_t)strlen(s) && !memcmp(b, s, r);
}

static int t_create(void) {
    struct stat st;
    int fd;
    CK((fd = open("c", O_CREAT | O_EXCL | O_RDWR, 0640)) >= 0);
    CK(!fstat(fd, &st));
    EQ(st.st_size, 0);
    EQ(st.st_mode & 07777, 0640);
    EQ(st.st_nlink, 1);
    EQ(st.st_uid, geteuid());
    ERR(open("c", O_CREAT | O_EXCL | O_RDWR, 0640), EEXIST);
    CK(write(fd, "hello", 5) == 5);
    CK(!close(fd));
    CK(!stat("c", &st));
    EQ(st.st_size, 5);
    CK(S_ISREG(st.st_mode));
    CK(same("c", "hello"));
    ERR(open("nope", O_RDONLY), ENOENT);
    return 0;
}
static int t_attr(void) {
    struct stat st;
    struct timespec ts[2] = {{1000000000, 123456789}, {1100000000, 987654321}};
    CK(!put("a", "x"));
    CK(!chmod("a", 04711));
    CK(!stat("a", &st));
    EQ(st.st_mode & 07777, 04711);
    if (!geteuid()) {
        CK(!chown("a", 1234, 5678));
        CK(!stat("a", &st));
        EQ(st.st_uid, 1234);
        EQ(st.st_gid, 5678);
    }
    CK(!utimensat(AT_FDCWD, "a", ts, 0));
    CK(!stat("a", &st));
    EQ(st.st_atim.tv_sec, 1000000000);
    EQ(st.st_mtim.tv_sec, 1100000000);
    EQ(st.st_mtim.tv_nsec, 987654321);
    return 0;
}
static int t_rename(void) {
    CK(!put("r1", "one"));
    CK(!put("r2", "two"));
    CK(!rename("r1", "r2"));
    CK(same("r2", "one"));
    ERR(access("r1", F_OK), ENOENT);
    CK(!mkdir("rd", 0755));
    CK(!rename("r2", "rd/r3"));
    CK(same("rd/r3", "one"));
    CK(!mkdir("re", 0755));
    ERR(rename("re", "rd"), ENOTEMPTY);
    ERR(rename("rd", "rd/x"), EINVAL);
    CK(!rename("rd", "re"));
    CK(same("re/r3", "one"));
    return 0;
}
static int t_remove(void) {
    struct stat st;
    CK(!put("u", "x"));
    CK(!unlink("u"));
    ERR(stat("u", &st), ENOENT);
    CK(!mkdir("ud", 0755));
    CK(!put("ud/f", "x"));
    ERR(rmdir("ud"), ENOTEMPTY);
    ERR(unlink("ud") == -1 && (errno == EISDIR || errno == EPERM) ? (errno = EISDIR, -1) : 0,
        EISDIR);
    CK(!unlink("ud/f"));
    CK(!rmdir("ud"));
    ERR(rmdir("ud"), ENOENT);
    return 0;
}
static int t_symlink(void) {
    char b[8192], l[1024];
    struct stat st;
    CK(!put("s", "data"));
    CK(!symlink("s", "sl"));
    EQ(readlink("sl", b, sizeof b), 1);
    CK(!lstat("sl", &st));
    CK(S_ISLNK(st.st_mode));
    CK(same("sl", "data"));
    memset(l, 'q', 1000);
    l[1000] = 0;
    CK(!symlink(l, "sl2"));
    EQ(readlink("sl2", b, sizeof b), 1000);
    CK(!memcmp(b, l, 1000));
    ERR(open("sl", O_RDONLY | O_NOFOLLOW), ELOOP);
    return 0;
}
static int t_hardlink(void) {
    struct stat a, b;
    CK(!put("h1", "data"));
    CK(!link("h1", "h2"));
    CK(!stat("h1", &a));
    CK(!stat("h2", &b));
    EQ(a.st_ino, b.st_ino);
    EQ(b.st_nlink, 2);
    ERR(link("h1", "h2"), EEXIST);
    CK(!unlink("h1"));
    CK(!stat("h2", &b));
    EQ(b.st_nlink, 1);
    CK(same("h2", "data"));
    return 0;
}
static int t_mknod(void) {
    struct stat st;
    UNSUP(mkfifo("ff", 0600));
    CK(!stat("ff", &st));
    CK(S_ISFIFO(st.st_mode));
    return 0;
}
static int t_xattr(void) {
    char b[65536], big[4096];
    CK(!put("x", "x"));
    UNSUP(setxattr("x", "user.one", "v1", 2, 0));
    EQ(getxattr("x", "user.one", b, sizeof b), 2);
    CK(!memcmp(b, "v1", 2));
    ERR(setxattr("x", "user.one", "v2", 2, XATTR_CREATE), EEXIST);
    CK(!setxattr("x", "user.one", "v22", 3, XATTR_REPLACE));
    EQ(getxattr("x", "user.one", b, sizeof b), 3);
    ERR(setxattr("x", "user.no", "v", 1, XATTR_REPLACE), ENODATA);
    pat(big, 2048, 0, 1);
    CK(!setxattr("x", "user.big", big, 2048, 0));
    EQ(getxattr("x", "user.big", b, sizeof b), 2048);
    CK(!memcmp(b, big, 2048));
    ssize_t l = listxattr("x", b, sizeof b);
    CK(l > 0);
    int f = 0;
    for (char *p = b; p < b + l; p += strlen(p) + 1)
        f += !strcmp(p, "user.one") || !strcmp(p, "user.big");
    EQ(f, 2);
    CK(!removexattr("x", "user.one"));
    ERR(getxattr("x", "user.one", b, sizeof b), ENODATA);
    return 0;
}
/* The mode as an NFSv4 list: it follows chmod, can be set back, and may name users. */
static int t_acl(void) {
    static const char named[] = "\0\0\0\1" /* one entry: allow, no flags, read, user 1000 */
                                "\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\4"
                                "1000";
    char before[4096], after[4096];
    struct stat s;
    ssize_t l, m;
    CK(!put("acl", "x"));
    CK(!chmod("acl", 0640));
    UNSUP(l = getxattr("acl", "system.nfs4_acl", before, sizeof before));
    CK(!chmod("acl", 0604));
    CK((m = getxattr("acl", "system.nfs4_acl", after, sizeof after)) > 0);
    CK(m != l || memcmp(before, after, l));
    CK(!setxattr("acl", "system.nfs4_acl", before, l, 0));
    CK(!stat("acl", &s));
    EQ(s.st_mode & 07777, 0640);
    CK(!setxattr("acl", "system.nfs4_acl", named, sizeof named - 1, 0));
    EQ(getxattr("acl", "system.nfs4_acl", after, sizeof after), sizeof named - 1);
    CK(!memcmp(named, after, sizeof named - 1));
    CK(!stat("acl", &s));
    EQ(s.st_mode & 07777, 0);
    return 0;
}
static int lk(int fd, int cmd, int type, off_t s, off_t l, struct flock *o) {
    struct flock f = {.l_type = type, .l_whence = SEEK_SET, .l_start = s, .l_len = l};
    int r = fcntl(fd, cmd, &f);
    if (o)
        *o = f;
    return r;
}
static int t_fcntl(void) {
    int fd, st;
    CK((fd = open("lk", O_CREAT | O_RDWR, 0644)) >= 0);
    CK(!lk(fd, F_SETLK, F_WRLCK, 0, 100, 0));
    pid_t p = fork();
    if (!p) {
        struct flock o;
        int g = open("lk", O_RDWR);
        if (g < 0)
            _exit(1);
        if (lk(g, F_SETLK, F_WRLCK, 50, 10, 0) != -1 || (errno != EAGAIN && errno != EACCES))
            _exit(2);
        if (lk(g, F_GETLK, F_RDLCK, 0, 0, &o) || o.l_type != F_WRLCK)
            _exit(3);
        if (lk(g, F_SETLK, F_WRLCK, 100, 10, 0))
            _exit(4);
        if (lk(g, F_SETLKW, F_RDLCK, 0, 10, 0))
            _exit(5);
        _exit(0);
    }
    usleep(300000);
    CK(!lk(fd, F_SETLK, F_UNLCK, 0, 0, 0));
    CK(waitpid(p, &st, 0) == p);
    EQ(st, 0);
    /* split, upgrade, downgrade */
    CK(!lk(fd, F_SETLK, F_WRLCK, 0, 1000, 0));
    CK(!lk(fd, F_SETLK, F_UNLCK, 400, 100, 0));
    CK(!lk(fd, F_SETLK, F_RDLCK, 0, 100, 0));
    CK(!lk(fd, F_SETLK, F_WRLCK, 0, 100, 0));
    CK(!lk(fd, F_SETLK, F_RDLCK, (off_t)1 << 40, 0, 0));
    CK(!close(fd));
    return 0;
}
static int t_flock(void) {
    int a, b;
    CK((a = open("fl", O_CREAT | O_RDWR, 0644)) >= 0);
    CK((b = open("fl", O_RDWR)) >= 0);
    CK(!flock(a, LOCK_EX));
    ERR(flock(b, LOCK_EX | LOCK_NB), EAGAIN);
    CK(!flock(a, LOCK_UN));
    CK(!flock(b, LOCK_SH));
    CK(!flock(a, LOCK_SH | LOCK_NB));
    CK(!close(a));
    CK(!close(b));
    return 0;
}
static int t_ofd(void) {
    int a, b;
    CK((a = open("of", O_CREAT | O_RDWR, 0644)) >= 0);
    CK((b = open("of", O_RDWR)) >= 0);
    CK(!lk(a, F_OFD_SETLK, F_WRLCK, 0, 10, 0));
    ERR(lk(b, F_OFD_SETLK, F_WRLCK, 5, 1, 0), EAGAIN);
    CK(!lk(b, F_OFD_SETLK, F_WRLCK, 10, 1, 0));
    CK(!close(a));
    CK(!close(b));
    return 0;
}
static int t_truncate(void) {
    struct stat st;
    char b[8192], z[8192] = {0};
    int fd;
    CK(!put("t", "0123456789"));
    CK(!truncate("t", 4));
    CK(!stat("t", &st));
    EQ(st.st_size, 4);
    CK(same("t", "0123"));
    CK((fd = open("t", O_RDWR)) >= 0);
    CK(!ftruncate(fd, 8192));
    CK(!fstat(fd, &st));
    EQ(st.st_size, 8192);
    EQ(pread(fd, b, sizeof b, 0), 8192);
    CK(!memcmp(b, "0123", 4));
    CK(!memcmp(b + 4, z, 8188));
    CK(!ftruncate(fd, 0));
    CK(!fstat(fd, &st));
    EQ(st.st_size, 0);
    CK(!close(fd));
    CK((fd = open("t", O_RDWR | O_TRUNC)) >= 0);
    CK(!close(fd));
    return 0;
}
static int t_append(void) {
    struct stat st;
    int a, b;
    CK((a = open("ap", O_CREAT | O_WRONLY | O_APPEND, 0644)) >= 0);
    CK((b = open("ap", O_WRONLY | O_APPEND)) >= 0);
    CK(write(a, "aa", 2) == 2);
    CK(write(b, "bb", 2) == 2);
    CK(write(a, "cc", 2) == 2);
    CK(!close(a));
    CK(!close(b));
    CK(!stat("ap", &st));
    EQ(st.st_size, 6);
    CK(same("ap", "aabbcc"));
    return 0;
}
static int t_data(void) {
    size_t L = 3 << 20, c = 65521;
    char *w = malloc(L), *r = malloc(L);
    int fd;
    pat(w, L, 0, 7);
    CK((fd = open("d", O_CREAT | O_RDWR, 0644)) >= 0);
    for (size_t o = 0; o < L; o += c) {
        size_t l = L - o < c ? L - o : c;
        EQ(pwrite(fd, w + o, l, o), l);
    }
    CK(!fsync(fd));
    CK(!fdatasync(fd));
    CK(!posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
    for (size_t o = 0; o < L; o += c) {
        size_t l = L - o < c ? L - o : c;
        EQ(pread(fd, r + o, l, o), l);
    }
    CK(!memcmp(w, r, L));
    pat(w + 12345, 54321, 9, 8);
    EQ(pwrite(fd, w + 12345, 54321, 12345), 54321);
    CK(!fsync(fd));
    CK(!posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
    EQ(pread(fd, r, L, 0), L);
    CK(!memcmp(w, r, L));
    CK(!close(fd));
    free(w);
    free(r);
    return 0;
}
static int t_sparse(void) {
    struct stat st;
    char b[16];
    int fd;
    off_t at = ((off_t)5 << 30) + 3;
    CK((fd = open("sp", O_CREAT | O_RDWR, 0644)) >= 0);
    CK(pwrite(fd, "end", 3, at) == 3);
    CK(!fsync(fd));
    CK(!fstat(fd, &st));
    EQ(st.st_size, at + 3);
    EQ(pread(fd, b, 16, at - 13), 16);
    CK(!memcmp(b + 13, "end", 3));
    CK(!b[0] && !b[12]);
    EQ(pread(fd, b, 16, at + 3), 0);
    CK(!close(fd));
    return 0;
}
static int t_mmap(void) {
    struct stat st;
    int fd;
    size_t L = 256 << 10;
    char *m, *r = malloc(L), *w = malloc(L);
    CK((fd = open("mm", O_CREAT | O_RDWR, 0644)) >= 0);
    CK(!ftruncate(fd, L));
    CK((m = mmap(0, L, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) != MAP_FAILED);
    pat(w, L, 0, 3);
    memcpy(m, w, L);
    CK(!msync(m, L, MS_SYNC));
    CK(!munmap(m, L));
    CK(!posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
    EQ(pread(fd, r, L, 0), L);
    CK(!memcmp(r, w, L));
    CK((m = mmap(0, L, PROT_READ, MAP_PRIVATE, fd, 0)) != MAP_FAILED);
    CK(!memcmp(m, w, L));
    CK(!munmap(m, L));
    CK(!fstat(fd, &st));
    EQ(st.st_size, L);
    CK(!close(fd));
    free(r);
    free(w);
    return 0;
}
static int t_direct(void) {
    int fd;
    size_t L = 1 << 20;
    char *w, *r;
    CK(!posix_memalign((void **)&w, 4096, L));
    CK(!posix_memalign((void **)&r, 4096, L));
    pat(w, L, 0, 5);
    fd = open("od", O_CREAT | O_RDWR | O_DIRECT, 0644);
    if (fd < 0 && errno == EINVAL) {
        fail("O_DIRECT");
        return SKIP;
    }
    CK(fd >= 0);
    EQ(pwrite(fd, w, L, 0), L);
    EQ(pread(fd, r, L, 0), L);
    CK(!memcmp(w, r, L));
    EQ(pread(fd, r, 4096, 8192), 4096);
    CK(!memcmp(r, w + 8192, 4096));
    EQ(pwrite(fd, w, 8192, 1 << 20), 8192);
    EQ(pread(fd, r, L, 1 << 20), 8192);
    CK(!memcmp(r, w, 8192));
    CK(!close(fd));
    free(w);
    free(r);
    return 0;
}
static int t_osync(void) {
    int fd;
    char b[10000];
    pat(b, sizeof b, 0, 4);
    CK((fd = open("os", O_CREAT | O_RDWR | O_SYNC, 0644)) >= 0);
    CK(write(fd, b, sizeof b) == sizeof b);
    CK(!close(fd));
    CK((fd = open("os", O_RDWR | O_DSYNC)) >= 0);
    CK(write(fd, b, 10) == 10);
    CK(!close(fd));
    return 0;
}
static int t_fallocate(void) {
    struct stat st;
    int fd;
    char b[100], w[65536];
    CK((fd = open("fa", O_CREAT | O_RDWR, 0644)) >= 0);
    UNSUP(fallocate(fd, 0, 0, 1 << 20));
    CK(!fstat(fd, &st));
    EQ(st.st_size, 1 << 20);
    memset(w, 'z', sizeof w);
    CK(pwrite(fd, w, sizeof w, 0) == sizeof w);
    CK(!fsync(fd));
    UNSUP(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 16384));
    EQ(pread(fd, b, 100, 8192), 100);
    CK(!b[0] && !b[99]);
    EQ(pread(fd, b, 100, 8192 - 50), 100);
    CK(b[0] == 'z' && !b[50]);
    CK(!fstat(fd, &st));
    EQ(st.st_size, 1 << 20);
    CK(!close(fd));
    return 0;
}
static int t_seek(void) {
    int fd;
    char w[65536];
    memset(w, 'y', sizeof w);
    CK((fd = open("sk", O_CREAT | O_RDWR, 0644)) >= 0);
    CK(!ftruncate(fd, 4 << 20));
    CK(pwrite(fd, w, sizeof w, 2 << 20) == sizeof w);
    CK(!fsync(fd));
    off_t d = lseek(fd, 0, SEEK_DATA), h = lseek(fd, 2 << 20, SEEK_HOLE);
    CK(d >= 0 && h >= 0);
    if (d == 0 && h == 4 << 20) {
        fail("no hole reported (allowed)");
        return SKIP;
    }
    CK(d <= 2 << 20);
    CK(h >= (2 << 20) + 65536 && h <= 4 << 20);
    ERR(lseek(fd, 5 << 20, SEEK_DATA), ENXIO);
    CK(!close(fd));
    return 0;
}
static int t_copy(void) {
    int a, b;
    struct stat st;
    size_t L = 300000;
    char *w = malloc(L), *r = malloc(L);
    /* A short file, and one too large to be copied in one go: mostly a hole. */
    loff_t ends[] = {300000, 48 << 20};
    pat(w, L, 0, 6);
    for (int n = 0; n < 2; n++) {
        CK((a = open("cs", O_CREAT | O_TRUNC | O_RDWR, 0644)) >= 0);
        CK((b = open("cd", O_CREAT | O_TRUNC | O_RDWR, 0644)) >= 0);
        CK(!ftruncate(a, ends[n]));
        CK(pwrite(a, w, L, 0) == (ssize_t)L);
        CK(pwrite(a, w, L, ends[n] - L) == (ssize_t)L);
        loff_t i = 0, o = 0;
        while (i < ends[n]) {
            ssize_t k = copy_file_range(a, &i, b, &o, ends[n] - i, 0);
            UNSUP(k);
            CK(k > 0);
        }
        CK(!fstat(b, &st));
        EQ(st.st_size, ends[n]);
        EQ(pread(b, r, L, 0), L);
        CK(!memcmp(w, r, L));
        EQ(pread(b, r, L, ends[n] - L), L);
        CK(!memcmp(w, r, L));
        CK(!close(a));
        CK(!close(b));
    }
    free(w);
    free(r);
    return 0;
}
static int t_clone(void) {
    int a, b;
    char r[4096], w[65536];
    memset(w, 'k', sizeof w);
    CK((a = open("ka", O_CREAT | O_RDWR, 0644)) >= 0);
    CK((b = open("kb", O_CREAT | O_RDWR, 0644)) >= 0);
    CK(write(a, w, sizeof w) == sizeof w);
    CK(!fsync(a));
    if (ioctl(b, FICLONE, a) < 0 &&
        (errno == EINVAL || errno == EXDEV || errno == EOPNOTSUPP || errno == ENOTTY)) {
        fail("FICLONE: %s", strerror(errno));
        return SKIP;
    }
    EQ(pread(b, r, sizeof r, 65536 - 4096), 4096);
    CK(r[0] == 'k');
    CK(pwrite(b, "X", 1, 0) == 1);
    CK(pread(a, r, 1, 0) == 1 && r[0] == 'k');
    CK(!close(a));
    CK(!close(b));
    return 0;
}
static int t_silly(void) {
    int fd;
    char b[10];
    struct stat st;
    CK((fd = open("si", O_CREAT | O_RDWR, 0644)) >= 0);
    CK(write(fd, "alive", 5) == 5);
    CK(!unlink("si"));
    ERR(stat("si", &st), ENOENT);
    EQ(pread(fd, b, 10, 0), 5);
    CK(pwrite(fd, "more", 4, 5) == 4);
    CK(!fsync(fd));
    CK(!fstat(fd, &st));
    EQ(st.st_size, 9);
    CK(!close(fd));
    return 0;
}
static int t_readdir(void) {
    char f[300];
    int N = 700, c = 0, dots = 0;
    DIR *d;
    struct dirent *e;
    static char seen[1000];
    CK(!mkdir("many", 0755));
    for (int i = 0; i < N; i++) {
        snprintf(f, sizeof f, "many/file-with-a-fairly-long-name-%06d", i);
        CK(!put(f, ""));
    }
    CK((d = opendir("many")));
    while ((e = readdir(d))) {
        if (e->d_name[0] == '.') {
            dots++;
            continue;
        }
        int k = atoi(strrchr(e->d_name, '-') + 1);
        CK(k >= 0 && k < N && !seen[k]);
        seen[k] = 1;
        c++;
    }
    EQ(c, N);
    EQ(dots, 2);
    rewinddir(d);
    c = 0;
    while ((e = readdir(d)))
        c++;
    EQ(c, N + 2);
    rewinddir(d);
    while ((e = readdir(d)))
        if (e->d_name[0] != '.') {
            snprintf(f, sizeof f, "many/%s", e->d_name);
            CK(!unlink(f));
        }
    CK(!closedir(d));
    CK(!rmdir("many"));
    return 0;
}
static int t_names(void) {
    char l[300];
    memset(l, 'n', 255);
    l[255] = 0;
    CK(!put(l, "x"));
    CK(!unlink(l));
    memset(l, 'n', 256);
    l[256] = 0;
    ERR(open(l, O_CREAT | O_WRONLY, 0644), ENAMETOOLONG);
    CK(!put("sp ace \xc3\xa9\xe6\xbc\xa2", "u"));
    CK(same("sp ace \xc3\xa9\xe6\xbc\xa2", "u"));
    CK(!put("..x", "y"));
    CK(!put("a\\b:c*?", "z"));
    CK(same("a\\b:c*?", "z"));
    return 0;
}
static int t_deep(void) {
    char p[2000] = "dp";
    CK(!mkdir(p, 0755));
    for (int i = 0; i < 30; i++) {
        strcat(p, "/dir");
        CK(!mkdir(p, 0755));
    }
    strcat(p, "/f");
    CK(!put(p, "deep"));
    CK(same(p, "deep"));
    return 0;
}
static int t_dirattr(void) {
    struct stat a, b, c;
    CK(!mkdir("da", 0755));
    CK(!stat("da", &a));
    EQ(a.st_nlink, 2);
    usleep(20000);
    CK(!mkdir("da/s", 0755));
    CK(!stat("da", &b));
    if (b.st_nlink != 3 && b.st_nlink != 1 && b.st_nlink != 2)
        return fail("nlink %d", (int)b.st_nlink);
    CK(b.st_mtim.tv_sec > a.st_mtim.tv_sec || b.st_mtim.tv_nsec != a.st_mtim.tv_nsec);
    CK(!put("da/f", "1"));
    CK(!stat("da/f", &a));
    usleep(20000);
    CK(!chmod("da/f", 0600));
    CK(!stat("da/f", &c));
    CK(c.st_ctim.tv_sec > a.st_ctim.tv_sec || c.st_ctim.tv_nsec > a.st_ctim.tv_nsec);
    return 0;
}
static int t_statfs(void) {
    struct statvfs v;
    CK(!statvfs(".", &v));
    CK(v.f_bsize > 0 && v.f_blocks > 0 && v.f_namemax >= 255);
    return 0;
}
static int t_perm(void) {
    int st;
    if (geteuid()) {
        fail("not root");
        return SKIP;
    }
    CK(!put("p", "secret"));
    CK(!chmod("p", 0600));
    CK(!chown("p", 0, 0));
    CK(!chmod(".", 0755));
    pid_t p = fork();
    if (!p) {
        if (setgid(4321) || setuid(4321))
            _exit(9);
        if (open("p", O_RDONLY) != -1 || errno != EACCES)
            _exit(1);
        if (open("newf", O_CREAT | O_WRONLY, 0644) != -1 || errno != EACCES)
            _exit(2);
        if (unlink("p") != -1 || errno != EACCES)
            _exit(3);
        if (chmod("p", 0777) != -1 || errno != EPERM)
            _exit(4);
        _exit(0);
    }
    CK(waitpid(p, &st, 0) == p);
    EQ(st, 0);
    return 0;
}
static int t_concurrent(void) {
    int st, ok = 1;
    CK(!put("cc", ""));
    for (int k = 0; k < 4; k++)
        if (!fork()) {
            char b[4096];
            int fd = open("cc", O_RDWR);
            if (fd < 0)
                _exit(1);
            for (int i = 0; i < 32; i++) {
                off_t o = (off_t)(i * 4 + k) * 4096;
                pat(b, 4096, o, 11);
                if (pwrite(fd, b, 4096, o) != 4096)
                    _exit(2);
            }
            if (fsync(fd))
                _exit(3);
            _exit(close(fd) ? 4 : 0);
        }
    for (int k = 0; k < 4; k++) {
        wait(&st);
        ok &= st == 0;
    }
    CK(ok);
    char r[4096], w[4096];
    int fd;
    CK((fd = open("cc", O_RDONLY)) >= 0);
    for (int i = 0; i < 128; i++) {
        EQ(pread(fd, r, 4096, i * 4096L), 4096);
        pat(w, 4096, i * 4096L, 11);
        CK(!memcmp(r, w, 4096));
    }
    CK(!close(fd));
    return 0;
}

#define T(x)                                                                                       \
    { #x, t_##x }
static struct {
    const char *name;
    int (*f)(void);
} tests[] = {T(create),    T(attr),  T(rename),  T(remove), T(symlink), T(hardlink),
             T(mknod),     T(xattr), T(acl),     T(fcntl),  T(flock),   T(ofd),  T(truncate),
             T(append),    T(data),  T(sparse),  T(mmap),   T(direct),  T(osync),
             T(fallocate), T(seek),  T(copy),    T(clone),  T(silly),   T(readdir),
             T(names),     T(deep),  T(dirattr), T(statfs), T(perm),    T(concurrent)};
/* each test runs in a child, so that a SIGBUS or a hang costs one test only */
static int run(int (*f)(void)) {
    int p[2], st;
    char b[sizeof why];
    ssize_t l, k = 0;
    if (pipe(p))
        return fail("pipe");
    fflush(stdout);
    pid_t c = fork();
    if (!c) {
        close(p[0]);
        alarm(120);
        int r = f();
        b[0] = r;
        strcpy(b + 1, why);
        if (write(p[1], b, strlen(why) + 2) < 0)
            _exit(1);
        _exit(0);
    }
    close(p[1]);
    while ((l = read(p[0], b + k, sizeof b - k)) > 0)
        k += l;
    close(p[0]);
    if (waitpid(c, &st, 0) == c && WIFSIGNALED(st))
        return fail(WTERMSIG(st) == SIGALRM ? "no end after 120 s" : "killed by signal %d",
                    WTERMSIG(st));
    if (k < 1)
        return fail("no result");
    b[k - 1] = 0;
    strcpy(why, b + 1);
    return b[0];
}
int main(int c, char **v) {
    char d[PATH_MAX];
    if (c < 2) {
        fprintf(stderr, "nfssmoke DIR [TEST...]\n");
        return 2;
    }
    umask(022);
    snprintf(d, sizeof d, "%s/smoke.%d", v[1], (int)getpid());
    if (mkdir(d, 0755) || chdir(d)) {
        perror(d);
        return 2;
    }
    setvbuf(stdout, 0, _IOLBF, 0);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (c > 2) {
            int k = 2;
            while (k < c && strcmp(v[k], tests[i].name))
                k++;
            if (k == c)
                continue;
        }
        struct timeval a, b;
        gettimeofday(&a, 0);
        *why = 0;
        int r = run(tests[i].f);
        gettimeofday(&b, 0);
        double s = b.tv_sec - a.tv_sec + (b.tv_usec - a.tv_usec) / 1e6;
        n++;
        bad += r == 1;
        skipped += r == SKIP;
        printf("%s %d - %s (%.2fs)%s%s\n", r == 1 ? "not ok" : "ok", n, tests[i].name, s,
               r == SKIP ? " # SKIP "
               : r       ? " # "
                         : "",
               r ? why : "");
    }
    printf("1..%d\n# %d passed, %d skipped, %d failed\n", n, n - bad - skipped, skipped, bad);
    return bad > 100 ? 100 : bad;
}

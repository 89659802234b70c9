/* load - processes that change files without pause and know what must be there.
 *   cc -O2 -static -o load load.c
 *   load run STATE DIR WORKERS SEED   works in DIR/w0, DIR/w1, ... until `load stop`; holds a lock on
 *                                     DIR/held all the time
 *   load progress STATE COUNT SECONDS waits until each worker has done COUNT more operations
 *   load nospace STATE COUNT SECONDS  waits until COUNT operations ended with ENOSPC since the
 *                                     last time, also before this was asked
 *   load rest STATE SECONDS           lets every worker finish its operation and stand still; then
 *                                     STATE.list says what DIR holds: "d PATH", "f PATH SIZE FNV1A"
 *   load go STATE | load stop STATE SECONDS
 *   load report STATE                 KEY VALUE lines
 * STATE is a file on a local file system. Every operation is acknowledged only when it is durable
 * (O_SYNC, O_DIRECT, fsync, close), and only then is it in the list.
 * Errors end a worker, and with it every later command, with two exceptions:
 * - ENOSPC: the operation counts as not done; a file whose bytes are in doubt is removed.
 * - What a server restart makes of a request that it had carried out before: sessions that are not
 *   persistent give no exactly-once semantics over it (RFC 8881, 2.10.6.5), so the repeated request
 *   finds its own work (mkdir, link: EEXIST; unlink, rmdir, rename: ENOENT). That is looked at
 *   closely, and counted (repeated). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORKERS_MAX 16
#define NAMES_MAX 10
#define DIRS_MAX 2
#define KEPT_MAX (1 << 20)
#define SMALL_MAX (96 << 10)
/* More than a stripe unit on each of four data servers. */
#define LARGE_MAX ((4 << 20) + 54321)
/* One write call, so that a fault can fall between two of the same file. */
#define PIECE (256 << 10)

enum command { GO, REST, STOP };

struct worker {
    uint64_t operations, bytes, repeated, nospace, longest_ms;
    int resting, ended, failed;
    char doing[96];
};
struct state {
    int command, workers;
    uint64_t counter; /* what DIR/locks must say */
    uint64_t ran_out; /* operations that ended with ENOSPC by the last time one waited for them */
    struct worker worker[WORKERS_MAX];
};
static volatile struct state *state;
static const char *state_path;

/* --- a worker's model ------------------------------------------------------------------------- */

struct object { /* a file's bytes; `links` names show them */
    unsigned char *data;
    size_t size;
    ino_t ino;
    int links;
};
struct name {
    char path[64];
    struct object *object;
};
static struct name names[NAMES_MAX];
static int name_count;
static int dirs[DIRS_MAX]; /* number of the directory, 0 = none */
static struct object kept;
static int kept_fd, locks_fd, me;
static volatile struct worker *mine;
static unsigned next_number = 1;
static uint64_t seed;

static uint64_t rnd(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}
static size_t below(size_t limit) { return rnd() % limit; }

static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void doing(const char *what, const char *path) {
    snprintf((char *)mine->doing, sizeof mine->doing, "%s %s", what, path);
}

__attribute__((noreturn, format(printf, 1, 2))) static void broken(const char *format, ...) {
    int why = errno;
    va_list arguments;
    printf("load: worker %d, after %llu operations: ", me, (unsigned long long)mine->operations);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf(": %s\n", strerror(why));
    fflush(stdout);
    mine->failed = 1;
    exit(1);
}

static int in_dir(const char *path, int dir) {
    char start[32];
    int length = snprintf(start, sizeof start, "w%d/d%d/", me, dir);
    return !strncmp(path, start, (size_t)length);
}

static void new_path(char *path) {
    int dir = dirs[below(DIRS_MAX)];
    if (dir && below(2))
        sprintf(path, "w%d/d%d/f%u", me, dir, next_number++);
    else
        sprintf(path, "w%d/f%u", me, next_number++);
}

static size_t new_size(void) { return below(8) ? below(SMALL_MAX) : below(LARGE_MAX); }

static void grow(struct object *object, size_t size) {
    if (size > object->size) {
        object->data = realloc(object->data, size);
        if (!object->data)
            broken("no memory");
        memset(object->data + object->size, 0, size - object->size);
    }
    object->size = size;
}

static void fill(unsigned char *data, size_t length) {
    for (; length >= 8; data += 8, length -= 8) {
        uint64_t word = rnd();
        memcpy(data, &word, 8);
    }
    while (length--)
        *data++ = (unsigned char)rnd();
}

static void forget(int index) {
    struct object *object = names[index].object;
    if (--object->links == 0) {
        free(object->data);
        free(object);
    }
    names[index] = names[--name_count];
}

/* --- operations ------------------------------------------------------------------------------- */

static int no_space(void) {
    if (errno != ENOSPC)
        return 0;
    mine->nospace++;
    return 1;
}

static void unlink_name(int index) {
    doing("unlink", names[index].path);
    if (unlink(names[index].path)) {
        if (errno != ENOENT)
            broken("unlink %s", names[index].path);
        mine->repeated++;
    }
    forget(index);
}

/* The bytes of this file are in doubt: all its names go. */
static void give_up(struct object *object) {
    for (int i = name_count - 1; i >= 0; i--)
        if (names[i].object == object)
            unlink_name(i);
}

/* Writes what the model holds of a range; 1 if there was no space for it. */
static int write_out(int fd, const struct object *object, size_t from, size_t length, const char *path) {
    while (length) {
        size_t piece = length < PIECE ? length : PIECE;
        ssize_t wrote = pwrite(fd, object->data + from, piece, (off_t)from);
        if (wrote < 0 && no_space())
            return 1;
        if (wrote <= 0)
            broken("write %s at %zu", path, from);
        from += (size_t)wrote;
        length -= (size_t)wrote;
        mine->bytes += (uint64_t)wrote;
    }
    return 0;
}

static int close_file(int fd, const char *path) {
    if (!close(fd))
        return 0;
    if (no_space())
        return 1;
    broken("close %s", path);
}

/* One of the ways by which an application makes its bytes durable. */
static int write_durably(const char *path, int flags, struct object *object, size_t from, size_t length) {
    static const int how[] = {O_SYNC, O_DIRECT, 0, 0};
    size_t way = below(4);
    if (flags & O_APPEND && way == 1)
        way = 2; /* Linux refuses O_APPEND with O_DIRECT on NFS */
    int fd = open(path, O_RDWR | flags | how[way], 0644);
    if (fd < 0) {
        if (no_space())
            return 1;
        broken("open %s (flags %o)", path, (unsigned)flags);
    }
    struct stat facts;
    if (fstat(fd, &facts))
        broken("fstat %s", path);
    object->ino = facts.st_ino;
    int full = write_out(fd, object, from, length, path);
    if (!full && way == 2 && fsync(fd)) {
        if (!no_space())
            broken("fsync %s", path);
        full = 1;
    }
    return close_file(fd, path) | full; /* way 3: close alone */
}

static void create(void) {
    struct name *name = &names[name_count];
    new_path(name->path);
    doing("create", name->path);
    struct object *object = calloc(1, sizeof *object);
    if (!object)
        broken("no memory");
    grow(object, new_size());
    fill(object->data, object->size);
    object->links = 1;
    name->object = object;
    name_count++;
    if (write_durably(name->path, O_CREAT | O_EXCL, object, 0, object->size)) {
        struct stat facts;
        if (!stat(name->path, &facts))
            give_up(object);
        else
            forget(name_count - 1);
    }
}

static void overwrite(struct name *name) {
    struct object *object = name->object;
    if (!object->size)
        return;
    doing("overwrite", name->path);
    size_t from = below(object->size);
    size_t length = 1 + below(object->size - from);
    fill(object->data + from, length);
    if (write_durably(name->path, 0, object, from, length))
        give_up(object);
}

static void append(struct name *name) {
    struct object *object = name->object;
    size_t from = object->size, length = 1 + below(SMALL_MAX);
    if (from + length > LARGE_MAX)
        return;
    doing("append", name->path);
    grow(object, from + length);
    fill(object->data + from, length);
    if (write_durably(name->path, O_APPEND, object, from, length))
        give_up(object);
}

static void cut(struct name *name) {
    struct object *object = name->object;
    size_t size = below(3) ? below(object->size + 1) : object->size + below(SMALL_MAX);
    if (size > LARGE_MAX)
        return;
    doing("truncate", name->path);
    grow(object, size);
    if (truncate(name->path, (off_t)size)) {
        if (!no_space())
            broken("truncate %s to %zu", name->path, size);
        give_up(object);
    }
}

/* A hole in the middle, or room at the end (which is zeros). */
static void punch_or_allocate(struct name *name, int punch) {
    struct object *object = name->object;
    size_t from = punch ? below(object->size + 1) : object->size;
    size_t length = 1 + below(punch ? LARGE_MAX / 2 : SMALL_MAX);
    if (from + length > LARGE_MAX)
        return;
    doing(punch ? "punch" : "allocate", name->path);
    int fd = open(name->path, O_RDWR);
    if (fd < 0)
        broken("open %s", name->path);
    int mode = punch ? FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE : 0;
    int full = 0;
    if (fallocate(fd, mode, (off_t)from, (off_t)length)) {
        if (!no_space())
            broken("fallocate %s (mode %d) at %zu, %zu", name->path, mode, from, length);
        full = 1;
    } else if (punch) {
        size_t end = from + length < object->size ? from + length : object->size;
        memset(object->data + from, 0, end - from);
    } else
        grow(object, from + length);
    if (close_file(fd, name->path) | full)
        give_up(object);
}

/* By the servers among themselves. */
static void copy(struct name *from) {
    if (name_count == NAMES_MAX)
        return;
    struct name *to = &names[name_count];
    new_path(to->path);
    doing("copy", to->path);
    int source = open(from->path, O_RDONLY), fd = open(to->path, O_RDWR | O_CREAT | O_EXCL, 0644);
    if (source < 0 || (fd < 0 && !no_space()))
        broken("open %s and %s", from->path, to->path);
    if (fd < 0) {
        close_file(source, from->path);
        return;
    }
    struct object *object = calloc(1, sizeof *object);
    struct stat facts;
    if (!object || fstat(fd, &facts))
        broken("fstat %s", to->path);
    object->ino = facts.st_ino;
    object->links = 1;
    grow(object, from->object->size);
    memcpy(object->data, from->object->data, object->size);
    to->object = object;
    name_count++;
    int full = 0;
    for (size_t done = 0; done < object->size && !full;) {
        ssize_t copied = copy_file_range(source, NULL, fd, NULL, object->size - done, 0);
        if (copied < 0 && no_space())
            full = 1;
        else if (copied <= 0)
            broken("copy %s to %s at %zu", from->path, to->path, done);
        else
            done += (size_t)copied;
    }
    if (!full && fsync(fd)) {
        if (!no_space())
            broken("fsync %s", to->path);
        full = 1;
    }
    close_file(source, from->path);
    if (close_file(fd, to->path) | full)
        give_up(object);
}

/* What the client knows of the names in a directory may be older than a request whose reply was
 * lost: opening the directory makes it ask. */
static void ask_again(const char *path) {
    char dir[64];
    strcpy(dir, path);
    *strrchr(dir, '/') = 0;
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        broken("open %s", dir);
    close_file(fd, dir);
}

static int is(const char *path, const struct object *object) {
    struct stat facts;
    ask_again(path);
    return !stat(path, &facts) && facts.st_ino == object->ino;
}

static int is_missing(const char *path) {
    struct stat facts;
    ask_again(path);
    return stat(path, &facts) && errno == ENOENT;
}

static int find(const char *path) {
    for (int i = 0; i < name_count; i++)
        if (!strcmp(names[i].path, path))
            return i;
    return -1;
}

/* To a new name, or over another file. */
static void rename_name(int index) {
    char from[64], to[64];
    int over = below(4) ? -1 : (int)below((size_t)name_count);
    if (over >= 0 && names[over].object == names[index].object)
        return; /* two names of one file: rename does nothing then */
    strcpy(from, names[index].path);
    if (over >= 0)
        strcpy(to, names[over].path);
    else
        new_path(to);
    doing("rename", from);
    if (rename(from, to)) {
        int why = errno;
        if (no_space()) {
            if (!is(from, names[index].object))
                broken("%s is gone after a rename that failed", from);
            return;
        }
        int there = is(to, names[index].object);
        int gone = is_missing(from);
        if (why != ENOENT || !there || !gone)
            errno = why, broken("rename %s to %s (which is %s, and the old name is %s)", from, to,
                                there ? "it" : "not", gone ? "gone" : "there");
        mine->repeated++;
    }
    if (over >= 0)
        forget(over);
    strcpy(names[find(from)].path, to);
}

static void link_name(const struct name *name) {
    char to[64];
    if (name_count == NAMES_MAX)
        return;
    new_path(to);
    doing("link", to);
    if (link(name->path, to)) {
        int why = errno;
        if (no_space())
            return;
        if (why != EEXIST || !is(to, name->object))
            errno = why, broken("link %s to %s", name->path, to);
        mine->repeated++;
    }
    strcpy(names[name_count].path, to);
    names[name_count++].object = name->object;
    name->object->links++;
}

static void make_or_remove_dir(int slot) {
    char path[64];
    if (!dirs[slot]) {
        int number = (int)next_number++;
        sprintf(path, "w%d/d%d", me, number);
        doing("mkdir", path);
        if (mkdir(path, 0755)) {
            if (no_space())
                return;
            if (errno != EEXIST)
                broken("mkdir %s", path);
            mine->repeated++;
        }
        dirs[slot] = number;
        return;
    }
    for (int i = 0; i < name_count; i++)
        if (in_dir(names[i].path, dirs[slot]))
            return;
    sprintf(path, "w%d/d%d", me, dirs[slot]);
    doing("rmdir", path);
    if (rmdir(path)) {
        if (errno != ENOENT)
            broken("rmdir %s", path);
        mine->repeated++;
    }
    dirs[slot] = 0;
}

static void compare(int fd, const struct object *object, const char *path) {
    static unsigned char got[PIECE];
    struct stat facts;
    /* Half of the reads ask the server. */
    if (below(2))
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (fstat(fd, &facts))
        broken("fstat %s", path);
    errno = 0;
    if ((size_t)facts.st_size != object->size)
        broken("%s has %lld bytes, not %zu", path, (long long)facts.st_size, object->size);
    if ((int)facts.st_nlink != object->links)
        broken("%s has %d names, not %d", path, (int)facts.st_nlink, object->links);
    for (size_t at = 0; at < object->size;) {
        ssize_t length = pread(fd, got, sizeof got, (off_t)at);
        if (length <= 0)
            broken("read %s at %zu of %zu", path, at, object->size);
        for (size_t i = 0; i < (size_t)length; i++)
            if (got[i] != object->data[at + i])
                broken("%s differs at %zu of %zu", path, at + i, object->size);
        at += (size_t)length;
    }
}

static void read_back(const struct name *name) {
    doing("read", name->path);
    int fd = open(name->path, O_RDONLY | (below(4) ? 0 : O_DIRECT));
    if (fd < 0)
        broken("open %s to read", name->path);
    compare(fd, name->object, name->path);
    close_file(fd, name->path);
}

/* A file that stays open from the start to the end: its open state lives through every fault. */
static void use_kept(void) {
    char path[32];
    sprintf(path, "w%d/kept", me);
    doing("write", path);
    size_t from = kept.size, length = 1 + below(SMALL_MAX);
    if (from + length <= KEPT_MAX) {
        grow(&kept, from + length);
        fill(kept.data + from, length);
        if (!write_out(kept_fd, &kept, from, length, path)) {
            if (!fdatasync(kept_fd)) {
                compare(kept_fd, &kept, path);
                return;
            }
            if (!no_space())
                broken("fdatasync %s", path);
        }
    }
    doing("truncate", path);
    if (ftruncate(kept_fd, 0))
        broken("truncate %s", path);
    grow(&kept, 0);
}

/* A number that everybody counts up, under a lock. */
static void count_up(void) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 8};
    uint64_t said;
    doing("lock", "locks");
    if (fcntl(locks_fd, F_SETLKW, &lock))
        broken("lock");
    doing("count", "locks");
    if (pread(locks_fd, &said, 8, 0) != 8)
        broken("read under the lock");
    errno = 0;
    if (said != state->counter)
        broken("the counter is %llu, not %llu", (unsigned long long)said,
               (unsigned long long)state->counter);
    said++;
    if (pwrite(locks_fd, &said, 8, 0) != 8 || fdatasync(locks_fd))
        broken("write under the lock");
    state->counter = said;
    lock.l_type = F_UNLCK;
    doing("unlock", "locks");
    if (fcntl(locks_fd, F_SETLK, &lock))
        broken("unlock");
}

static void operate(void) {
    size_t what = below(100);
    int index = name_count ? (int)below((size_t)name_count) : -1;
    if (index < 0 || (what < 14 && name_count < NAMES_MAX))
        create();
    else if (what < 26)
        overwrite(&names[index]);
    else if (what < 36)
        append(&names[index]);
    else if (what < 42)
        cut(&names[index]);
    else if (what < 46)
        punch_or_allocate(&names[index], 1);
    else if (what < 49)
        punch_or_allocate(&names[index], 0);
    else if (what < 54)
        copy(&names[index]);
    else if (what < 61)
        rename_name(index);
    else if (what < 66)
        link_name(&names[index]);
    else if (what < 76)
        unlink_name(index);
    else if (what < 81)
        make_or_remove_dir((int)below(DIRS_MAX));
    else if (what < 88)
        read_back(&names[index]);
    else if (what < 94)
        use_kept();
    else
        count_up();
}

/* --- standing still --------------------------------------------------------------------------- */

static uint64_t fnv1a(const unsigned char *data, size_t length) {
    uint64_t hash = 0xcbf29ce484222325u;
    while (length--)
        hash = (hash ^ *data++) * 0x100000001b3u;
    return hash;
}

static void list_file(FILE *list, const char *path, const unsigned char *data, size_t size) {
    fprintf(list, "f %s %zu %016llx\n", path, size, (unsigned long long)fnv1a(data, size));
}

static FILE *open_list(int worker, const char *mode) {
    char path[128];
    snprintf(path, sizeof path, "%s.list%d", state_path, worker);
    return fopen(path, mode);
}

static void list_mine(void) {
    FILE *list = open_list(me, "w");
    char path[32];
    if (!list)
        broken("the list");
    fprintf(list, "d w%d\n", me);
    for (int i = 0; i < DIRS_MAX; i++)
        if (dirs[i])
            fprintf(list, "d w%d/d%d\n", me, dirs[i]);
    for (int i = 0; i < name_count; i++)
        list_file(list, names[i].path, names[i].object->data, names[i].object->size);
    sprintf(path, "w%d/kept", me);
    list_file(list, path, kept.data, kept.size);
    if (fclose(list))
        broken("the list");
}

static int work(int number, uint64_t given_seed) {
    char path[32];
    me = number;
    mine = &state->worker[number];
    seed = given_seed * 1000003 + (uint64_t)number * 0x9E3779B97F4A7C15u + 1;
    sprintf(path, "w%d", me);
    if (mkdir(path, 0755))
        broken("mkdir %s", path);
    sprintf(path, "w%d/kept", me);
    kept_fd = open(path, O_RDWR | O_CREAT, 0644);
    locks_fd = open("locks", O_RDWR);
    kept.links = 1;
    if (kept_fd < 0 || locks_fd < 0)
        broken("open %s and locks", path);
    while (state->command != STOP) {
        if (state->command == REST) {
            if (!mine->resting)
                list_mine();
            mine->resting = 1;
            usleep(10000);
            continue;
        }
        mine->resting = 0;
        uint64_t began = now_ms();
        operate();
        uint64_t took = now_ms() - began;
        if (took > mine->longest_ms)
            mine->longest_ms = took;
        mine->operations++;
    }
    if (close(kept_fd) || close(locks_fd))
        broken("close at the end");
    mine->ended = 1;
    return 0;
}

static int run(const char *dir, int workers, uint64_t given_seed) {
    uint64_t zero = 0;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 100};
    if (chdir(dir))
        return perror(dir), 1;
    int locks = open("locks", O_RDWR | O_CREAT, 0644), held = open("held", O_RDWR | O_CREAT, 0644);
    if (locks < 0 || held < 0 || pwrite(locks, &zero, 8, 0) != 8 || fsync(locks) || close(locks))
        return perror("locks"), 1;
    if (fcntl(held, F_SETLK, &lock))
        return perror("held"), 1;
    state->workers = workers;
    for (int i = 0; i < workers; i++)
        if (!fork())
            exit(work(i, given_seed));
    int failed = 0, status;
    while (wait(&status) > 0)
        failed |= status;
    /* A client that lost the lock fails this write with EIO. */
    if (pwrite(held, "held", 4, 0) != 4 || fsync(held) || close(held))
        return perror("write under the lock held all the time"), 1;
    return failed != 0;
}

/* --- commands --------------------------------------------------------------------------------- */

static uint64_t sum(size_t field) {
    uint64_t total = 0;
    for (int i = 0; i < state->workers; i++)
        total += *(volatile uint64_t *)((volatile char *)&state->worker[i] + field);
    return total;
}

static int any_failed(void) {
    for (int i = 0; i < state->workers; i++)
        if (state->worker[i].failed)
            return 1;
    return 0;
}

/* Waits until `done(i)` holds for every worker. */
static int until_all(int (*done)(int), int seconds, const char *what) {
    uint64_t deadline = now_ms() + (uint64_t)seconds * 1000;
    for (int i = 0; i < state->workers;) {
        if (done(i)) {
            i++;
            continue;
        }
        if (any_failed())
            return 1;
        if (now_ms() > deadline) {
            printf("load: no %s within %d s:\n", what, seconds);
            for (int w = 0; w < state->workers; w++)
                printf("load: worker %d: %s\n", w, (char *)state->worker[w].doing);
            return 1;
        }
        usleep(10000);
    }
    return any_failed();
}

static uint64_t wanted[WORKERS_MAX];
static int has_progressed(int i) { return state->worker[i].operations >= wanted[i]; }
static int is_resting(int i) { return state->worker[i].resting; }
static int has_ended(int i) { return state->worker[i].ended; }
static int has_run_out(int i) {
    (void)i;
    return sum(offsetof(struct worker, nospace)) >= wanted[0];
}

static int progress(uint64_t count, int seconds) {
    for (int tenths = 0; !state->workers && tenths < seconds * 10; tenths++)
        usleep(100000); /* it has just been started */
    if (!state->workers)
        return 1;
    for (int i = 0; i < state->workers; i++)
        wanted[i] = state->worker[i].operations + count;
    return until_all(has_progressed, seconds, "progress");
}

static int rest(int seconds) {
    char path[128];
    state->command = REST;
    if (until_all(is_resting, seconds, "rest"))
        return 1;
    snprintf(path, sizeof path, "%s.list", state_path);
    FILE *list = fopen(path, "w");
    if (!list)
        return 1;
    uint64_t counter = state->counter;
    list_file(list, "locks", (unsigned char *)&counter, 8);
    list_file(list, "held", NULL, 0);
    for (int i = 0; i < state->workers; i++) {
        FILE *part = open_list(i, "r");
        int byte;
        while (part && (byte = getc(part)) != EOF)
            putc(byte, list);
        if (!part || fclose(part))
            return 1;
    }
    return fclose(list) != 0;
}

static int go(void) {
    state->command = GO;
    return 0;
}

static int stop(int seconds) {
    state->command = STOP;
    return until_all(has_ended, seconds, "end");
}

static int report(void) {
    uint64_t longest = 0;
    for (int i = 0; i < state->workers; i++)
        if (state->worker[i].longest_ms > longest)
            longest = state->worker[i].longest_ms;
    printf("operations %llu\n", (unsigned long long)sum(offsetof(struct worker, operations)));
    printf("bytes %llu\n", (unsigned long long)sum(offsetof(struct worker, bytes)));
    printf("repeated %llu\n", (unsigned long long)sum(offsetof(struct worker, repeated)));
    printf("nospace %llu\n", (unsigned long long)sum(offsetof(struct worker, nospace)));
    printf("longest_ms %llu\n", (unsigned long long)longest);
    return any_failed();
}

int main(int argc, char **argv) {
    const char *command = argc > 2 ? argv[1] : "";
    long long number[3] = {0};
    for (int i = 3; i < argc && i < 6; i++)
        number[i - 3] = atoll(argv[i]);
    if (argc > 2) {
        state_path = argv[2];
        int fd = open(state_path, O_RDWR | O_CREAT, 0600);
        if (fd < 0 || ftruncate(fd, sizeof *state))
            return perror(state_path), 1;
        state = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (state == MAP_FAILED)
            return perror("mmap"), 1;
    }
    if (!strcmp(command, "run") && argc == 6 && number[1] > 0 && number[1] <= WORKERS_MAX)
        return run(argv[3], (int)number[1], (uint64_t)number[2]);
    if (!strcmp(command, "progress") && argc == 5)
        return progress((uint64_t)number[0], (int)number[1]);
    if (!strcmp(command, "nospace") && argc == 5) {
        wanted[0] = state->ran_out + (uint64_t)number[0];
        int failed = until_all(has_run_out, (int)number[1], "full disk");
        state->ran_out = sum(offsetof(struct worker, nospace));
        return failed;
    }
    if (!strcmp(command, "rest") && argc == 4)
        return rest((int)number[0]);
    if (!strcmp(command, "go") && argc == 3)
        return go();
    if (!strcmp(command, "stop") && argc == 4)
        return stop((int)number[0]);
    if (!strcmp(command, "report") && argc == 3)
        return report();
    fprintf(stderr, "load run|progress|nospace|rest|go|stop|report STATE [ARGUMENT...]\n");
    return 2;
}

/* stress - several processes work at random in one shared tree, and each knows what must be there.
 *   cc -O2 -static -o stress stress.c
 *   stress run DIR MANIFEST PROCESSES OPERATIONS SEED   works in DIR (made anew), then writes down
 *                                                       what it left there
 *   stress check DIR MANIFEST                           compares DIR with that, after a remount say
 * A process has files of its own, in folders that all share, and a model of each: bytes, size, links,
 * extended attribute. What all of them use is judged by rules: records appended under a lock are all
 * there and in order, a number raised under a lock lost nothing, an exclusive name has one owner, a
 * token renamed by everybody exists exactly once. The same seed gives a process the same operations.
 * Exit status: 0 all as it must be, 1 not so (one line says what, others what went before), 2 usage. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define DIRS 4
#define FILES 6
#define LINKS 3
#define TOKENS 8
#define PROCESSES_MAX 64
#define PAGE 4096
/* Over several stripes of 1 MiB, so that every data server has a part. */
#define FILE_MAX (3 << 20)
#define CHUNK_MAX (160 << 10)
#define RECORD 64
#define ATTRIBUTE "user.stress"
#define HISTORY 24
#define HISTORY_LINE 160

struct file {
    int exists, fd, dir, links, link_dir[LINKS];
    int mapped; /* changed through a mapping, and not synced since */
    size_t size;
    unsigned char *data;
    char attribute[64]; /* empty: none */
};

static const char *root;
static uint64_t seed, random_state;
static int process = -1; /* -1: the parent */
static unsigned long operation;
static char history[HISTORY][HISTORY_LINE];
static unsigned long noted;
static struct file files[FILES];
static unsigned char *buffer; /* FILE_MAX + PAGE bytes, page-aligned */
static int log_fd, counter_fd;
static unsigned long records, raised;

/* --- words --------------------------------------------------------------------------------------- */

static void die(const char *format, ...) {
    int error = errno;
    va_list arguments;
    fflush(stdout);
    for (unsigned long i = noted > HISTORY ? noted - HISTORY : 0; i < noted; i++)
        fprintf(stderr, "stress: %d: before: %s\n", process, history[i % HISTORY]);
    fprintf(stderr, "stress: FAILED: seed %llu process %d operation %lu: ",
            (unsigned long long)seed, process, operation);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, " (errno %d, %s)\n", error, strerror(error));
    _exit(1);
}

#define MUST(condition, ...)                                                                       \
    do {                                                                                           \
        if (!(condition))                                                                          \
            die(__VA_ARGS__);                                                                      \
    } while (0)

static void note(const char *format, ...) {
    va_list arguments;
    char *line = history[noted++ % HISTORY];
    int start = snprintf(line, HISTORY_LINE, "%lu ", operation);
    va_start(arguments, format);
    vsnprintf(line + start, HISTORY_LINE - start, format, arguments);
    va_end(arguments);
}

static uint64_t draw(uint64_t below) { /* xorshift64* */
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return below ? (random_state * 0x2545F4914F6CDD1DULL >> 11) % below : 0;
}

static int unsupported(void) { return errno == EOPNOTSUPP || errno == ENOSYS; }

static const char *path(const char *format, ...) {
    static char ring[4][512];
    static int next;
    char *text = ring[next++ % 4];
    va_list arguments;
    int start = snprintf(text, sizeof ring[0], "%s/", root);
    va_start(arguments, format);
    vsnprintf(text + start, sizeof ring[0] - start, format, arguments);
    va_end(arguments);
    return text;
}

static int index_of(const struct file *f) { return (int)(f - files); }
static const char *name_in(const struct file *f, int dir) {
    return path("d%d/p%d.%d", dir, process, index_of(f));
}
static const char *name_of(const struct file *f) { return name_in(f, f->dir); }
static const char *link_of(const struct file *f, int link) {
    return path("d%d/p%d.%d.%d", f->link_dir[link], process, index_of(f), link);
}

static uint64_t digest(const unsigned char *bytes, size_t count) { /* FNV-1a */
    uint64_t hash = 0xcbf29ce484222325ULL;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3ULL;
    return hash;
}

/* --- own files and their models ------------------------------------------------------------------ */

static void fill(unsigned char *to, size_t count) {
    for (size_t i = 0; i < count; i += 8) {
        uint64_t word = draw(~0ULL);
        memcpy(to + i, &word, count - i < 8 ? count - i : 8);
    }
}

static int all_zero(const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (bytes[i])
            return 0;
    return 1;
}

static void compare(const struct file *f, size_t offset, const unsigned char *got, size_t count) {
    const unsigned char *want = f->data + offset;
    size_t first = 0, last = count;
    if (memcmp(got, want, count) == 0)
        return;
    while (got[first] == want[first])
        first++;
    while (got[last - 1] == want[last - 1])
        last--;
    die("%s: bytes %zu to %zu differ (size %zu): first is %02x, must be %02x", name_of(f),
        offset + first, offset + last, f->size, got[first], want[first]);
}

/* Bytes behind the end are zero in the model, so growing needs only the new size. */
static void resize(struct file *f, size_t size) {
    if (size < f->size)
        memset(f->data + size, 0, f->size - size);
    f->size = size;
}

static void check_facts(struct file *f) {
    struct stat by_name, by_fd;
    MUST(lstat(name_of(f), &by_name) == 0, "stat %s", name_of(f));
    MUST(fstat(f->fd, &by_fd) == 0, "fstat %s", name_of(f));
    MUST(by_name.st_ino == by_fd.st_ino, "%s is another file than the open one", name_of(f));
    MUST((size_t)by_name.st_size == f->size, "%s: size %lld, must be %zu", name_of(f),
         (long long)by_name.st_size, f->size);
    MUST(by_name.st_nlink == (nlink_t)f->links + 1, "%s: %lu links, must be %d", name_of(f),
         (unsigned long)by_name.st_nlink, f->links + 1);
}

static void create(struct file *f) {
    f->dir = (int)draw(DIRS);
    note("create %s", name_of(f));
    f->fd = open(name_of(f), O_CREAT | O_EXCL | O_RDWR, 0644);
    MUST(f->fd >= 0, "create %s", name_of(f));
    resize(f, 0);
    f->exists = 1;
    f->links = 0;
    f->mapped = 0;
    f->attribute[0] = 0;
}

static void read_back(const struct file *f, int fd, size_t offset, size_t count) {
    size_t want = offset >= f->size ? 0 : f->size - offset < count ? f->size - offset : count;
    ssize_t got = pread(fd, buffer, count, (off_t)offset);
    MUST(got == (ssize_t)want, "read %s at %zu of %zu: %zd, must be %zu", name_of(f), offset, count,
         got, want);
    compare(f, offset, buffer, want);
}

/* Linux's NFS client writes back before direct I/O what buffered writes left, not what mappings did,
 * if the I/O before was direct too: programs that mix the two must sync. */
static int open_directly(struct file *f) {
    int fd = open(name_of(f), O_RDWR | O_DIRECT);
    MUST(!f->mapped || fsync(f->fd) == 0, "fsync %s", name_of(f));
    f->mapped = 0;
    MUST(fd >= 0, "open %s O_DIRECT", name_of(f));
    return fd;
}

static void put(struct file *f, int fd, size_t offset, size_t count) {
    fill(buffer, count);
    ssize_t wrote = pwrite(fd, buffer, count, (off_t)offset);
    MUST(wrote == (ssize_t)count, "write %s at %zu of %zu: %zd", name_of(f), offset, count, wrote);
    if (offset + count > f->size)
        resize(f, offset + count);
    memcpy(f->data + offset, buffer, count);
}

static size_t some_length(void) { return 1 + draw(draw(3) ? 2 * PAGE : CHUNK_MAX); }
static size_t some_place(size_t length) { return draw(FILE_MAX - length); }

static void op_write(struct file *f) {
    size_t length = some_length(), offset = draw(2) ? some_place(length) : draw(f->size + 1);
    if (offset + length > FILE_MAX)
        offset = FILE_MAX - length;
    note("write %s %zu+%zu (size %zu)", name_of(f), offset, length, f->size);
    put(f, f->fd, offset, length);
}

static void op_read(struct file *f) {
    size_t length = some_length(), offset = draw(f->size + 1);
    note("read %s %zu+%zu (size %zu)", name_of(f), offset, length, f->size);
    read_back(f, f->fd, offset, length);
}

static void op_direct_write(struct file *f) {
    size_t length = PAGE * (1 + draw(CHUNK_MAX / PAGE));
    size_t offset = PAGE * draw((FILE_MAX - length) / PAGE);
    int fd = open_directly(f);
    note("direct write %s %zu+%zu (size %zu)", name_of(f), offset, length, f->size);
    put(f, fd, offset, length);
    MUST(close(fd) == 0, "close %s", name_of(f));
}

static void op_direct_read(struct file *f) {
    size_t offset = PAGE * draw(f->size / PAGE + 1);
    int fd = open_directly(f);
    note("direct read %s %zu (size %zu)", name_of(f), offset, f->size);
    read_back(f, fd, offset, PAGE * (1 + draw(CHUNK_MAX / PAGE)));
    MUST(close(fd) == 0, "close %s", name_of(f));
}

/* Through a mapping: read, and change if `change`. */
static void through_map(struct file *f, int change) {
    if (f->size == 0)
        return;
    size_t offset = draw(f->size), length = some_length(), start = offset / PAGE * PAGE;
    if (offset + length > f->size)
        length = f->size - offset;
    note("map %s %zu+%zu change %d (size %zu)", name_of(f), offset, length, change, f->size);
    unsigned char *map = mmap(NULL, offset + length - start, PROT_READ | PROT_WRITE, MAP_SHARED,
                              f->fd, (off_t)start);
    MUST(map != MAP_FAILED, "mmap %s", name_of(f));
    compare(f, offset, map + (offset - start), length);
    if (change) {
        fill(map + (offset - start), length);
        memcpy(f->data + offset, map + (offset - start), length);
        if (draw(2))
            f->mapped = 1;
        else
            MUST(msync(map, offset + length - start, MS_SYNC) == 0, "msync %s", name_of(f));
    }
    MUST(munmap(map, offset + length - start) == 0, "munmap %s", name_of(f));
}
static void op_map_read(struct file *f) { through_map(f, 0); }
static void op_map_write(struct file *f) { through_map(f, 1); }

static void op_truncate(struct file *f) {
    size_t size = draw(4) ? draw(f->size + 1) : draw(FILE_MAX);
    note("truncate %s to %zu (size %zu)", name_of(f), size, f->size);
    if (draw(2))
        MUST(ftruncate(f->fd, (off_t)size) == 0, "ftruncate %s to %zu", name_of(f), size);
    else
        MUST(truncate(name_of(f), (off_t)size) == 0, "truncate %s to %zu", name_of(f), size);
    resize(f, size);
}

static void op_punch(struct file *f) {
    size_t length = some_length(), offset = draw(f->size + 1);
    note("punch %s %zu+%zu (size %zu)", name_of(f), offset, length, f->size);
    if (fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                  (off_t)length) != 0) {
        MUST(unsupported(), "punch %s %zu+%zu", name_of(f), offset, length);
        return;
    }
    if (offset + length > f->size)
        length = f->size - offset;
    memset(f->data + offset, 0, length);
}

static void op_allocate(struct file *f) {
    size_t length = some_length(), offset = draw(f->size + 1);
    if (offset + length > FILE_MAX)
        return;
    note("allocate %s %zu+%zu (size %zu)", name_of(f), offset, length, f->size);
    if (fallocate(f->fd, 0, (off_t)offset, (off_t)length) != 0) {
        MUST(unsupported(), "fallocate %s %zu+%zu", name_of(f), offset, length);
        return;
    }
    if (offset + length > f->size)
        resize(f, offset + length);
}

/* What is said to be a hole holds zeros, and a file ends with one. */
static void op_seek(struct file *f) {
    if (f->size == 0)
        return;
    size_t offset = draw(f->size);
    note("seek %s from %zu (size %zu)", name_of(f), offset, f->size);
    off_t data = lseek(f->fd, (off_t)offset, SEEK_DATA);
    size_t until = data < 0 && errno == ENXIO ? f->size : (size_t)data;
    MUST(until >= offset && until <= f->size, "SEEK_DATA %s from %zu: %lld", name_of(f), offset,
         (long long)data);
    MUST(all_zero(f->data + offset, until - offset), "SEEK_DATA %s from %zu skips data: %lld",
         name_of(f), offset, (long long)data);
    off_t hole = lseek(f->fd, (off_t)offset, SEEK_HOLE);
    MUST(hole >= (off_t)offset && (size_t)hole <= f->size, "SEEK_HOLE %s from %zu: %lld",
         name_of(f), offset, (long long)hole);
    MUST((size_t)hole == f->size || f->data[hole] == 0, "SEEK_HOLE %s from %zu: data at %lld",
         name_of(f), offset, (long long)hole);
}

static void op_rename(struct file *f) {
    const char *from = name_of(f);
    int dir = (int)draw(DIRS);
    note("rename %s to d%d", from, dir);
    MUST(rename(from, name_in(f, dir)) == 0, "rename %s to d%d", from, dir);
    f->dir = dir;
}

/* Takes the name of another file of ours, whose contents are gone with it. */
static void op_replace(struct file *f) {
    struct file *old = &files[draw(FILES)], gone = *old;
    if (old == f || !old->exists || old->links > 0 || f->links > 0)
        return;
    note("replace %s by %s", name_of(old), name_of(f));
    MUST(rename(name_of(f), name_of(old)) == 0, "rename %s to %s", name_of(f), name_of(old));
    *old = *f;
    old->dir = gone.dir;
    f->data = gone.data;
    f->size = gone.size; /* what the model has to zero */
    f->exists = 0;
    MUST(close(gone.fd) == 0, "close of the replaced %s", name_of(old));
}

static void op_link(struct file *f) {
    if (f->links == LINKS)
        return;
    f->link_dir[f->links] = (int)draw(DIRS);
    note("link %s", link_of(f, f->links));
    MUST(link(name_of(f), link_of(f, f->links)) == 0, "link %s", link_of(f, f->links));
    f->links++;
    check_facts(f);
}

static void op_unlink_link(struct file *f) {
    if (f->links == 0)
        return;
    note("unlink %s", link_of(f, f->links - 1));
    MUST(unlink(link_of(f, f->links - 1)) == 0, "unlink %s", link_of(f, f->links - 1));
    f->links--;
    check_facts(f);
}

/* An open file outlives its name. */
static void op_unlink(struct file *f) {
    if (f->links > 0 || draw(3))
        return;
    note("unlink %s", name_of(f));
    MUST(unlink(name_of(f)) == 0, "unlink %s", name_of(f));
    read_back(f, f->fd, draw(f->size + 1), some_length());
    MUST(close(f->fd) == 0, "close of the unlinked %s", name_of(f));
    MUST(access(name_of(f), F_OK) == -1 && errno == ENOENT, "%s is still there", name_of(f));
    f->exists = 0;
}

static void op_symlink(struct file *f) {
    const char *soft = path("d%d/p%d.soft", (int)draw(DIRS), process);
    char target[PAGE], *want = (char *)buffer;
    size_t length = 1 + draw(200);
    note("symlink %s of %zu", soft, length);
    memset(want, 'a' + index_of(f), length);
    want[length] = 0;
    MUST(symlink(want, soft) == 0, "symlink %s", soft);
    ssize_t got = readlink(soft, target, sizeof target);
    MUST(got == (ssize_t)length && memcmp(target, want, length) == 0, "readlink %s", soft);
    MUST(unlink(soft) == 0, "unlink %s", soft);
}

static void op_copy(struct file *f) {
    struct file *to = &files[draw(FILES)];
    if (to == f || !to->exists || f->size == 0)
        return;
    size_t length = some_length(), from = draw(f->size), at = some_place(length);
    if (from + length > f->size)
        length = f->size - from;
    note("copy %s %zu+%zu to %s at %zu (size %zu)", name_of(f), from, length, name_of(to), at,
         to->size);
    for (size_t done = 0; done < length;) {
        off_t in = (off_t)(from + done), out = (off_t)(at + done);
        ssize_t step = copy_file_range(f->fd, &in, to->fd, &out, length - done, 0);
        /* Linux writes back what it has of the range, not what lies behind it: where the range is a
         * hole the server knows an older end, and must refuse (RFC 7862 section 15.2.3). */
        if (step < 0 && errno == EINVAL) {
            MUST(fsync(f->fd) == 0, "fsync %s", name_of(f));
            step = copy_file_range(f->fd, &in, to->fd, &out, length - done, 0);
        }
        MUST(step > 0, "copy %s to %s: %zd", name_of(f), name_of(to), step);
        done += (size_t)step;
    }
    if (at + length > to->size)
        resize(to, at + length);
    memcpy(to->data + at, f->data + from, length);
}

static void op_attribute(struct file *f) {
    char got[sizeof f->attribute] = "";
    ssize_t length = getxattr(name_of(f), ATTRIBUTE, got, sizeof got);
    if (length < 0 && unsupported())
        return;
    MUST(length < 0 ? errno == ENODATA && !f->attribute[0]
                    : (size_t)length == strlen(f->attribute) &&
                          memcmp(got, f->attribute, (size_t)length) == 0,
         "attribute of %s is %.*s, must be %s", name_of(f), (int)length, got, f->attribute);
    note("attribute %s", name_of(f));
    if (f->attribute[0] && draw(3) == 0) {
        MUST(removexattr(name_of(f), ATTRIBUTE) == 0, "removexattr %s", name_of(f));
        f->attribute[0] = 0;
        return;
    }
    snprintf(f->attribute, sizeof f->attribute, "%lu-%d", operation, (int)draw(1000000));
    MUST(setxattr(name_of(f), ATTRIBUTE, f->attribute, strlen(f->attribute), 0) == 0,
         "setxattr %s", name_of(f));
}

static void op_sync(struct file *f) {
    note("sync %s", name_of(f));
    MUST((draw(2) ? fsync(f->fd) : fdatasync(f->fd)) == 0, "fsync %s", name_of(f));
}

static void op_reopen(struct file *f) {
    note("reopen %s", name_of(f));
    MUST(close(f->fd) == 0, "close %s", name_of(f));
    f->fd = open(f->links && draw(2) ? link_of(f, 0) : name_of(f), O_RDWR);
    MUST(f->fd >= 0, "open %s", name_of(f));
}

static void op_facts(struct file *f) {
    note("stat %s", name_of(f));
    check_facts(f);
}

/* --- what all share ------------------------------------------------------------------------------ */

static void lock(int fd, short type) {
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
    MUST(fcntl(fd, F_SETLKW, &range) == 0, "lock");
}

static void op_record(struct file *f) {
    char record[RECORD + 1];
    (void)f;
    note("record %lu", records);
    snprintf(record, sizeof record, "%-20d%-43lu\n", process, records++);
    lock(log_fd, F_WRLCK);
    MUST(write(log_fd, record, RECORD) == RECORD, "append a record");
    lock(log_fd, F_UNLCK);
}

static void op_raise(struct file *f) {
    char text[32] = "";
    (void)f;
    note("raise");
    lock(counter_fd, F_WRLCK);
    MUST(pread(counter_fd, text, sizeof text - 1, 0) >= 0, "read the number");
    int length = snprintf(text, sizeof text, "%020lu", strtoul(text, NULL, 10) + 1);
    MUST(pwrite(counter_fd, text, (size_t)length, 0) == length, "write the number");
    lock(counter_fd, F_UNLCK);
    raised++;
}

static void op_exclusive(struct file *f) {
    const char *name = path("exclusive.%d", (int)draw(3));
    char mine[32], got[32] = "";
    (void)f;
    note("exclusive %s", name);
    int fd = open(name, O_CREAT | O_EXCL | O_RDWR, 0644);
    if (fd < 0) {
        MUST(errno == EEXIST, "create %s", name);
        return;
    }
    int length = snprintf(mine, sizeof mine, "%d %lu", process, operation);
    MUST(pwrite(fd, mine, (size_t)length, 0) == length, "write %s", name);
    MUST(close(fd) == 0, "close %s", name);
    MUST((fd = open(name, O_RDONLY)) >= 0, "open %s, which is ours", name);
    MUST(read(fd, got, sizeof got) == length && strcmp(got, mine) == 0, "%s holds %s, not %s", name,
         got, mine);
    MUST(close(fd) == 0, "close %s", name);
    MUST(unlink(name) == 0, "unlink %s, which is ours", name);
}

static void op_token(struct file *f) {
    int token = (int)draw(TOKENS), from = (int)draw(DIRS), to = (int)draw(DIRS);
    (void)f;
    note("token %d from d%d to d%d", token, from, to);
    int moved = rename(path("d%d/token.%d", from, token), path("d%d/token.%d", to, token));
    MUST(moved == 0 || errno == ENOENT, "rename token %d from d%d to d%d", token, from, to);
}

/* --- processes ----------------------------------------------------------------------------------- */

static const struct {
    void (*run)(struct file *);
    int weight;
} operations[] = {
    {op_write, 16},     {op_read, 14},     {op_direct_write, 5}, {op_direct_read, 5},
    {op_map_read, 5},   {op_map_write, 6}, {op_truncate, 4},     {op_punch, 4},
    {op_allocate, 2},   {op_seek, 4},      {op_rename, 3},       {op_replace, 1},
    {op_link, 3},       {op_unlink_link, 3}, {op_unlink, 2},     {op_symlink, 2},
    {op_copy, 4},       {op_attribute, 3}, {op_sync, 2},         {op_reopen, 4},
    {op_facts, 4},      {op_record, 3},    {op_raise, 3},        {op_exclusive, 3},
    {op_token, 4},
};
#define KINDS (sizeof operations / sizeof operations[0])

static void step(void) {
    struct file *f = &files[draw(FILES)];
    if (!f->exists)
        create(f);
    int total = 0, chosen = 0;
    for (size_t i = 0; i < KINDS; i++)
        total += operations[i].weight;
    int ticket = (int)draw((uint64_t)total);
    while (ticket >= operations[chosen].weight)
        ticket -= operations[chosen++].weight;
    operations[chosen].run(f);
}

/* One line for each name: what `stress check` expects. */
static void write_down(FILE *manifest, struct file *f) {
    check_facts(f);
    read_back(f, f->fd, 0, f->size + 1);
    MUST(close(f->fd) == 0, "close %s", name_of(f));
    for (int link = -1; link < f->links; link++)
        fprintf(manifest, "%s %zu %d %016llx %s\n",
                (link < 0 ? name_of(f) : link_of(f, link)) + strlen(root) + 1, f->size,
                f->links + 1, (unsigned long long)digest(f->data, f->size),
                f->attribute[0] ? f->attribute : "-");
}

static void work(int number, unsigned long count, FILE *manifest) {
    process = number;
    random_state = (seed + 1) * 0x9E3779B97F4A7C15ULL ^ (uint64_t)(number + 1) << 32;
    buffer = aligned_alloc(PAGE, FILE_MAX + PAGE);
    log_fd = open(path("log"), O_WRONLY | O_APPEND);
    counter_fd = open(path("counter"), O_RDWR);
    MUST(buffer && log_fd >= 0 && counter_fd >= 0, "open what is shared");
    for (int i = 0; i < FILES; i++)
        MUST((files[i].data = calloc(1, FILE_MAX)), "memory");
    for (operation = 0; operation < count; operation++)
        step();
    for (int i = 0; i < FILES; i++)
        if (files[i].exists)
            write_down(manifest, &files[i]);
    fprintf(manifest, "#process %d %lu %lu\n", process, records, raised);
    MUST(fflush(manifest) == 0, "write the manifest");
    _exit(0);
}

static void prepare(void) {
    MUST(mkdir(root, 0755) == 0, "mkdir %s", root);
    for (int i = 0; i < DIRS; i++)
        MUST(mkdir(path("d%d", i), 0755) == 0, "mkdir d%d", i);
    for (int i = 0; i < TOKENS; i++)
        MUST(close(open(path("d%d/token.%d", i % DIRS, i), O_CREAT | O_EXCL | O_WRONLY, 0644)) == 0,
             "create token %d", i);
    MUST(close(open(path("log"), O_CREAT | O_EXCL | O_WRONLY, 0644)) == 0, "create the log");
    MUST(close(open(path("counter"), O_CREAT | O_EXCL | O_WRONLY, 0644)) == 0, "create the number");
}

static int run(const char *manifest_name, int processes, unsigned long count) {
    int failed = 0, status;
    prepare();
    /* Appending: the processes' lines go to one file. */
    FILE *manifest = fopen(manifest_name, "w");
    MUST(manifest && fclose(manifest) == 0, "create %s", manifest_name);
    for (int i = 0; i < processes; i++) {
        pid_t child = fork();
        MUST(child >= 0, "fork");
        if (child == 0) {
            MUST((manifest = fopen(manifest_name, "a")), "open %s", manifest_name);
            work(i, count, manifest);
        }
    }
    while (wait(&status) > 0)
        failed |= status;
    return failed != 0;
}

/* --- afterwards ---------------------------------------------------------------------------------- */

static void check_file(const char *name, size_t size, unsigned long links, uint64_t hash,
                       const char *attribute) {
    struct stat facts;
    char got[64] = "-";
    int fd = open(path("%s", name), O_RDONLY);
    MUST(fd >= 0, "open %s", name);
    MUST(fstat(fd, &facts) == 0, "stat %s", name);
    MUST((size_t)facts.st_size == size, "%s: size %lld, must be %zu", name,
         (long long)facts.st_size, size);
    MUST(facts.st_nlink == links, "%s: %lu links, must be %lu", name,
         (unsigned long)facts.st_nlink, links);
    MUST(read(fd, buffer, FILE_MAX + 1) == (ssize_t)size, "read %s", name);
    MUST(digest(buffer, size) == hash, "%s has other bytes than it must", name);
    ssize_t length = fgetxattr(fd, ATTRIBUTE, got, sizeof got - 1);
    /* A version without attributes cannot see those that another one has set. */
    if (length >= 0 || !unsupported())
        MUST(strncmp(got, attribute, sizeof got) == 0, "%s: attribute %s, must be %s", name, got,
             attribute);
    MUST(close(fd) == 0, "close %s", name);
}

static void check_log(const unsigned long *want, int processes) {
    unsigned long next[PROCESSES_MAX] = {0}, number;
    char record[RECORD + 1];
    int owner;
    FILE *log = fopen(path("log"), "r");
    MUST(log, "open the log");
    while (fread(record, 1, RECORD, log) == RECORD) {
        record[RECORD] = 0;
        MUST(sscanf(record, "%d %lu", &owner, &number) == 2 && record[RECORD - 1] == '\n' &&
                 owner >= 0 && owner < processes && number == next[owner],
             "the log at %ld: %s", ftell(log) - RECORD, record);
        next[owner]++;
    }
    for (int i = 0; i < processes; i++)
        MUST(next[i] == want[i], "the log has %lu records of process %d, not %lu", next[i], i,
             want[i]);
    fclose(log);
}

static void check_shared(unsigned long raises) {
    char text[32] = "0";
    FILE *counter = fopen(path("counter"), "r");
    MUST(counter, "open the number");
    unsigned long got = fgets(text, sizeof text, counter) ? strtoul(text, NULL, 10) : 0;
    MUST(got == raises, "the number is %lu, must be %lu", got, raises);
    fclose(counter);
    for (int token = 0; token < TOKENS; token++) {
        int found = 0;
        for (int dir = 0; dir < DIRS; dir++)
            found += access(path("d%d/token.%d", dir, token), F_OK) == 0;
        MUST(found == 1, "token %d is there %d times", token, found);
    }
}

static int check(const char *manifest_name) {
    char line[1024], name[256], attribute[64];
    unsigned long want[PROCESSES_MAX] = {0}, links, own_records, own_raises, raises = 0;
    unsigned long long hash;
    size_t size;
    int owner, processes = 0, names = 0;
    buffer = malloc(FILE_MAX + 1);
    FILE *manifest = fopen(manifest_name, "r");
    MUST(buffer && manifest, "open %s", manifest_name);
    while (fgets(line, sizeof line, manifest)) {
        if (sscanf(line, "#process %d %lu %lu", &owner, &own_records, &own_raises) == 3) {
            MUST(owner >= 0 && owner < PROCESSES_MAX, "manifest: %s", line);
            want[owner] = own_records;
            raises += own_raises;
            processes++;
            continue;
        }
        MUST(sscanf(line, "%255s %zu %lu %llx %63s", name, &size, &links, &hash, attribute) == 5,
             "manifest: %s", line);
        MUST(size <= FILE_MAX, "manifest: %s", line);
        check_file(name, size, links, hash, attribute);
        names++;
    }
    fclose(manifest);
    check_log(want, processes);
    check_shared(raises);
    printf("stress: %d names of %d processes are as they must be\n", names, processes);
    return 0;
}

int main(int count, char **words) {
    if (count == 7 && strcmp(words[1], "run") == 0) {
        int processes = atoi(words[4]);
        root = words[2];
        seed = strtoull(words[6], NULL, 10);
        printf("stress: seed %s, %s processes, %s operations each\n", words[6], words[4], words[5]);
        fflush(stdout);
        if (processes > 0 && processes <= PROCESSES_MAX)
            return run(words[3], processes, strtoul(words[5], NULL, 10));
    }
    if (count == 4 && strcmp(words[1], "check") == 0) {
        root = words[2];
        return check(words[3]);
    }
    fprintf(stderr, "usage: stress run DIR MANIFEST PROCESSES OPERATIONS SEED | check DIR MANIFEST\n");
    return 2;
}

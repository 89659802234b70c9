// hand.c - does on a directory what the judge of the pairs test asks for by TCP, and tells what it saw.
//
//   hand HOST PORT NAME DIR WORKERS      WORKERS processes, each with a connection of its own
//
// A request is a line of acts, ended by ';' each; the acts after one that fails are not done. The answer
// is a line: "ok" and what the acts told, or "err INDEX ERRNO". A worker has one file open at a time.
//
//   o FLAGS MODE NAME    open: r w b(oth) c(reate) x(clusive) t(runcate) a(ppend) d(irect)
//   w OFF LEN SEED       pwrite            a LEN SEED   write            e LEN SEED   pwrite at fstat's size
//   m OFF LEN SEED       write by a mapping, msync     t LEN  ftruncate  p OFF LEN    punch a hole
//   s                    fsync             c            close            l KIND TYPE  lock: fcntl, OFD or flock
//   r HOW                the file that is open (n, m by mapping, d direct): SIZE MODE MTIME CRC,CRC,... of
//                        each BLOCK bytes
//   R OFF LEN TIMES      reads the same place again and again: the CRCs that it saw, each once
//   C FROM               copy all of FROM into what is open
//   N FROM TO  U NAME  S NAME  L DIR  M MODE NAME  T SECONDS NAME
//                        rename, unlink, stat, list with attributes, chmod, set the times
//   q                    end
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK 65536      // bytes of a CRC
#define PERIOD 1048573   // bytes after which a pattern repeats: a prime, so no block of any size does
#define PIECE (1 << 20)  // bytes of a read or write
#define ALIGN 4096       // of what is written past the cache

static unsigned char base[PERIOD], *buffer;
static uint32_t table[8][256];
static int file = -1;
static char *answer;
static size_t answered, room;
static sigjmp_buf beyond;

static void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void tell(const char *format, ...) {
  va_list list;
  if (room - answered < 256) answer = realloc(answer, room = room * 2 + 4096);
  if (!answer) exit(3);
  va_start(list, format);
  answered += vsnprintf(answer + answered, room - answered, format, list);
  va_end(list);
}

// A mapping reached beyond the end of the file: an answer, not the end of the hand.
static void bus_error(int signal) {
  (void)signal;
  siglongjmp(beyond, 1);
}

static void prepare(void) {
  uint64_t x = 0x9E3779B97F4A7C15u;
  for (size_t i = 0; i < PERIOD; i++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    base[i] = x >> 32;
  }
  for (int i = 0; i < 256; i++) {
    uint32_t c = i;
    for (int k = 0; k < 8; k++) c = c & 1 ? 0xEDB88320u ^ c >> 1 : c >> 1;
    table[0][i] = c;
  }
  for (int i = 0; i < 256; i++)
    for (int k = 1; k < 8; k++) table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
  if (posix_memalign((void **)&buffer, ALIGN, PIECE)) exit(3);
}

static uint32_t crc(uint32_t c, const unsigned char *p, size_t n) {
  uint64_t word;
  for (c = ~c; n >= 8; p += 8, n -= 8) {
    memcpy(&word, p, 8);
    word ^= c;
    c = 0;
    for (int k = 0; k < 8; k++) c ^= table[7 - k][word >> 8 * k & 255];
  }
  for (; n; n--) c = c >> 8 ^ table[0][(c ^ *p++) & 255];
  return ~c;
}

// Bytes of the pattern SEED from place `at` of the file.
static void pattern(unsigned char *to, uint64_t seed, uint64_t at, size_t n) {
  size_t from = (at + seed * 7919) % PERIOD;
  while (n) {
    size_t some = PERIOD - from < n ? PERIOD - from : n;
    memcpy(to, base + from, some);
    to += some, n -= some, from = 0;
  }
}

static int put(off_t at, uint64_t len, uint64_t seed, int appends) {
  for (uint64_t done = 0; done < len;) {
    size_t piece = len - done < PIECE ? len - done : PIECE;
    pattern(buffer, seed, done, piece);
    ssize_t n = appends ? write(file, buffer, piece) : pwrite(file, buffer, piece, at + done);
    if (n < 0) return -1;
    if (n == 0) return errno = ENOSPC, -1;
    done += n;
  }
  return 0;
}

static int put_mapped(off_t at, uint64_t len, uint64_t seed) {
  off_t from = at & ~(off_t)(ALIGN - 1);
  size_t all = at - from + len;
  unsigned char *map = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, file, from);
  if (map == MAP_FAILED) return -1;
  pattern(map + (at - from), seed, 0, len);
  int failed = msync(map, all, MS_SYNC), error = errno;
  munmap(map, all);
  return errno = error, failed;
}

static int get(char how) {
  struct stat facts;
  uint32_t sum = 0;
  uint64_t at = 0;
  if (fstat(file, &facts)) return -1;
  uint64_t size = facts.st_size;
  unsigned char *map = NULL;
  if (how == 'm' && size) {
    map = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
    if (map == MAP_FAILED) return -1;
  }
  tell(" %llu %o %lld ", (unsigned long long)size, facts.st_mode & 07777, (long long)facts.st_mtime);
  for (;;) {
    ssize_t n;
    if (map) {
      n = size - at < PIECE ? size - at : PIECE;
      if (n) memcpy(buffer, map + at, n);
    } else {
      n = pread(file, buffer, PIECE, at);
    }
    if (n < 0) return -1;
    for (ssize_t i = 0; i < n;) {
      size_t left = BLOCK - (at + i) % BLOCK, some = (size_t)(n - i) < left ? (size_t)(n - i) : left;
      sum = crc(sum, buffer + i, some);
      i += some;
      if ((at + i) % BLOCK == 0) tell("%08x,", sum), sum = 0;
    }
    at += n;
    if (n == 0 || (map && at == size)) break;
  }
  if (at % BLOCK) tell("%08x,", sum);
  if (map) munmap(map, size);
  tell(" = %llu", (unsigned long long)at);  // bytes that came: more or less than the size is told
  return 0;
}

static int again(off_t at, size_t len, int times) {
  uint32_t seen[16];
  int count = 0;
  if (len > PIECE) return errno = EINVAL, -1;
  while (times--) {
    size_t got = 0;
    while (got < len) {
      ssize_t n = pread(file, buffer + got, len - got, at + got);
      if (n < 0) return -1;
      if (n == 0) break;
      got += n;
    }
    uint32_t sum = got < len ? (uint32_t)got : crc(0, buffer, len);
    int known = 0;
    for (int i = 0; i < count; i++) known |= seen[i] == sum;
    if (!known && count < 16) seen[count++] = sum;
  }
  tell(" ");
  for (int i = 0; i < count; i++) tell("%08x,", seen[i]);
  return 0;
}

static int copy_from(const char *name) {
  int from = open(name, O_RDONLY);
  if (from < 0) return -1;
  ssize_t n;
  while ((n = copy_file_range(from, NULL, file, NULL, 1 << 24, 0)) > 0) {}
  if (n < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EXDEV || errno == EINVAL))
    while ((n = read(from, buffer, PIECE)) > 0)
      if (write(file, buffer, n) != n) n = -1;
  int error = errno;
  close(from);
  return errno = error, n < 0 ? -1 : 0;
}

static int lock(char kind, char type) {
  int wanted = type == 'w' ? F_WRLCK : type == 'r' ? F_RDLCK : F_UNLCK;
  if (kind == 'l') return flock(file, type == 'w' ? LOCK_EX : type == 'r' ? LOCK_SH : LOCK_UN);
  struct flock all = {.l_type = wanted, .l_whence = SEEK_SET};
  return fcntl(file, kind == 'o' ? F_OFD_SETLKW : F_SETLKW, &all);
}

static int list(const char *name) {
  struct dirent *entry;
  struct stat facts;
  DIR *dir = opendir(name);
  int seen = 0;
  if (!dir) return -1;
  while ((entry = readdir(dir)))
    if (fstatat(dirfd(dir), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) == 0) seen++;
  closedir(dir);
  tell(" %d", seen);
  return 0;
}

static int open_file(const char *letters, int mode, const char *name) {
  int flags = 0;
  for (; *letters; letters++) switch (*letters) {
      case 'w': flags |= O_WRONLY; break;
      case 'b': flags |= O_RDWR; break;
      case 'c': flags |= O_CREAT; break;
      case 'x': flags |= O_EXCL; break;
      case 't': flags |= O_TRUNC; break;
      case 'a': flags |= O_APPEND; break;
      case 'd': flags |= O_DIRECT; break;
    }
  if (file >= 0) close(file);
  file = open(name, flags, mode);
  return file < 0 ? -1 : 0;
}

static int close_file(void) {
  int was = file;
  file = -1;
  return close(was);
}

static int act(char *words) {
  char a[256] = "", b[256] = "";
  unsigned long long x = 0, y = 0, z = 0;
  struct stat facts;
  switch (*words++) {
    case 'o': return sscanf(words, "%255s %llo %255s", a, &x, b) == 3 ? open_file(a, x, b) : -1;
    case 'w': return sscanf(words, "%llu %llu %llu", &x, &y, &z) == 3 ? put(x, y, z, 0) : -1;
    case 'a': return sscanf(words, "%llu %llu", &y, &z) == 2 ? put(0, y, z, 1) : -1;
    case 'e':
      if (sscanf(words, "%llu %llu", &y, &z) != 2 || fstat(file, &facts)) return -1;
      return put(facts.st_size, y, z, 0);
    case 'm': return sscanf(words, "%llu %llu %llu", &x, &y, &z) == 3 ? put_mapped(x, y, z) : -1;
    case 't': return sscanf(words, "%llu", &x) == 1 ? ftruncate(file, x) : -1;
    case 'p':
      if (sscanf(words, "%llu %llu", &x, &y) != 2) return -1;
      return fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, x, y);
    case 's': return fsync(file);
    case 'c': return close_file();
    case 'l': return sscanf(words, "%1s %1s", a, b) == 2 ? lock(*a, *b) : -1;
    case 'r': return sscanf(words, "%1s", a) == 1 ? get(*a) : -1;
    case 'R': return sscanf(words, "%llu %llu %llu", &x, &y, &z) == 3 ? again(x, y, z) : -1;
    case 'C': return sscanf(words, "%255s", a) == 1 ? copy_from(a) : -1;
    case 'N': return sscanf(words, "%255s %255s", a, b) == 2 ? rename(a, b) : -1;
    case 'U': return sscanf(words, "%255s", a) == 1 ? unlink(a) : -1;
    case 'S': return sscanf(words, "%255s", a) == 1 ? lstat(a, &facts) : -1;
    case 'L': return sscanf(words, "%255s", a) == 1 ? list(a) : -1;
    case 'M': return sscanf(words, "%llo %255s", &x, a) == 2 ? chmod(a, x) : -1;
    case 'T': {
      if (sscanf(words, "%llu %255s", &x, a) != 2) return -1;
      struct timespec times[2] = {{.tv_sec = x}, {.tv_sec = x}};
      return utimensat(AT_FDCWD, a, times, 0);
    }
  }
  errno = ENOSYS;
  return -1;
}

static int connected(const char *host, const char *port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
  int one = 1, judge = socket(AF_INET, SOCK_STREAM, 0);
  if (inet_pton(AF_INET, host, &to.sin_addr) != 1 || connect(judge, (struct sockaddr *)&to, sizeof to))
    perror("hand: connect"), exit(4);
  setsockopt(judge, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return judge;
}

static void serve(int judge, const char *name) {
  FILE *in = fdopen(judge, "r");
  char *line = NULL;
  size_t size = 0;
  dprintf(judge, "%s\n", name);
  while (getline(&line, &size, in) > 0) {
    int index = 0;
    volatile int failed = 0;
    answered = 0;
    tell("ok");
    for (char *save, *one = strtok_r(line, ";\n", &save); one && !failed; one = strtok_r(NULL, ";\n", &save)) {
      if (*one == 'q') exit(0);
      errno = EINVAL;
      failed = sigsetjmp(beyond, 1) ? (errno = EFAULT, -1) : act(one);
      index += !failed;
    }
    if (failed) answered = 0, tell("err %d %d", index, errno);
    tell("\n");
    for (size_t sent = 0; sent < answered;) {
      ssize_t n = write(judge, answer + sent, answered - sent);
      if (n <= 0) exit(5);
      sent += n;
    }
  }
  exit(0);
}

int main(int count, char **words) {
  if (count != 6) return fprintf(stderr, "hand HOST PORT NAME DIR WORKERS\n"), 2;
  if (chdir(words[4])) return perror(words[4]), 2;
  umask(0);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGBUS, bus_error);
  prepare();
  tell(" ");
  for (int n = atoi(words[5]); n; n--)
    if (fork() == 0) serve(connected(words[1], words[2]), words[3]);
  int status, worst = 0;
  while (wait(&status) > 0)
    if (status) worst = 1;
  return worst;
}

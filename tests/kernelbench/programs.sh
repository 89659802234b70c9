#!/bin/sh
# programs.sh PORT: mounts the server's root and has programs that people use work on it: git, rsync, make, SQLite,
# Redis, PostgreSQL, a mail folder, and processes that lock a file. /host is a Debian with these programs (read-only).
# Measured as phases.sh says. What they left is checked by themselves on a new
# mount, and fails the run if anything is wrong.
# shellcheck source-path=SCRIPTDIR/../guest source=common.sh
. /job/common.sh
# shellcheck source-path=SCRIPTDIR source=phases.sh
. /job/phases.sh
# shellcheck source-path=SCRIPTDIR source=debian.sh
. /job/debian.sh
port=$1
sources=40                 # C files
writers=4 rows=50          # SQLite: processes, and transactions of each
sets=2000                  # Redis
clients=2 transactions=200 # PostgreSQL: sessions, and transactions of each
mails=300
lockers=4 turns=100

# --- git, rsync, make

git_commit() { program /bin/sh -c 'cd /mnt/git && git init -q && git add -A && git commit -qm all'; }
git_status() { program git -C /mnt/git status --porcelain; }
git_clone() { program git clone -q --no-hardlinks /mnt/git /mnt/clone; }
git_gc() { program git -C /mnt/clone gc -q --prune=now; }
copy_by_rsync() { program rsync -a /tmp/tree/ /mnt/rsync; }

make_sources() {
  mkdir /mnt/make
  for i in $(seq $sources); do
    printf '#include <stdio.h>\nint f%d(void) { return puts("%d"); }\n' "$i" "$i" >"/mnt/make/f$i.c"
    echo "int f$i(void);" >>/mnt/make/all.h
  done
  {
    printf '#include "all.h"\nint main(void) { return 0'
    for i in $(seq $sources); do printf ' + !f%d()' "$i"; done
    echo '; }'
  } >/mnt/make/main.c
  # shellcheck disable=SC2016 # make's own variables
  printf 'program: $(patsubst %%.c,%%.o,$(wildcard *.c))\n\tgcc -o $@ $^\n' >/mnt/make/Makefile
}

make_program() { program make -s -C /mnt/make -j2; }

# --- databases

insert_rows() { # WRITER
  { echo ".timeout 120000" && seq $rows | sed "s/.*/insert into t values ($1, &, randomblob(500));/"; } |
    program sqlite3 -bail "/mnt/sqlite/$journal.db"
}

sqlite_writers() {
  running=''
  for writer in $(seq $writers); do
    insert_rows "$writer" &
    running="$running $!"
  done
  for pid in $running; do wait "$pid" || return 1; done
}

phase_sqlite() { # JOURNAL
  journal=$1
  make_sqlite "$journal"
  timed "sqlite-$journal" $((writers * rows)) sqlite_writers
}

sqlite_is_sound() { # JOURNAL
  said=$(program sqlite3 "/mnt/sqlite/$1.db" "pragma integrity_check; select count(*) from t;" | tr '\n' ' ')
  [ "$said" = "ok $((writers * rows)) " ] || fail "SQLite, $1: $said"
}

redis_sets() {
  seq $sets | sed 's/.*/set key:& value:&/' | redis | grep -cx OK | grep -qx $sets
}

bank() { pgbench -n -c $clients -t $transactions; }

postgres_is_sound() {
  start_postgres
  said=$(sql 'select count(*) from pgbench_history')
  [ "$said" = $((clients * transactions)) ] || fail "PostgreSQL: $said transactions"
  sums_agree
  stop_postgres
  checksums_agree
}

# --- mail, locks

write_count() {
  cat >/host/tmp/count.pl <<'END'
# count.pl FILE PROCESSES N: each adds 1 to the number in a file N times, under flock.
use strict; use Fcntl ':flock';
my ($file, $processes, $n) = @ARGV;
my @children = map { my $pid = fork // die "fork: $!"; $pid || do { add() for 1 .. $n; exit 0 } } 1 .. $processes;
for (@children) { waitpid($_, 0); $? == 0 or die "a process failed" }
sub add {
  open my $f, '+<', $file or die "open: $!";
  flock $f, LOCK_EX or die "flock: $!";
  my $number = <$f>;
  seek $f, 0, 0; print $f $number + 1, "\n";
  close $f or die "close: $!";
}
END
}

count() { program perl /tmp/count.pl /mnt/count $lockers $turns; }

mail_is_there() {
  [ "$(find /mnt/mail -type f | wc -l)" = $mails ] || fail "mail"
  mail_is_whole $mails
}

# --- all of it

prepare_client
prepare_root
mkdir /host/tmp/tree || fail "mkdir"
files tree /host/tmp/tree $tree_dirs $tree_files || fail "no tree"
write_deliver
write_count
mount_new "$port"
make_folders
cp -r /host/tmp/tree/. /mnt/git || fail "no sources"
make_sources

phase_idle
timed git-commit $((tree_dirs * tree_files)) git_commit
timed git-status $((tree_dirs * tree_files)) git_status
timed git-clone $((tree_dirs * tree_files)) git_clone
timed git-gc 1 git_gc
timed rsync $((tree_dirs * tree_files)) copy_by_rsync
timed make $((sources + 1)) make_program
phase_sqlite delete
phase_sqlite wal
start_redis
timed redis $sets redis_sets
stop_redis
make_database 2
timed postgres $((clients * transactions)) bank
stop_postgres
timed mail $mails deliver $mails
timed flock $((lockers * turns)) count
unmount_all

mount_new "$port"
for repository in git clone; do
  program git -C /mnt/$repository fsck --full >/dev/null 2>&1 || fail "git fsck: $repository"
  [ -z "$(program git -C /mnt/$repository status --porcelain)" ] || fail "$repository differs from what was committed"
done
diff -r /host/tmp/tree /mnt/rsync >/dev/null || fail "rsync: the files differ"
[ "$(program /mnt/make/program | wc -l)" = $sources ] || fail "what was made does not do what it should"
sqlite_is_sound delete
sqlite_is_sound wal
start_redis
[ "$(redis dbsize) $(redis get key:$sets)" = "$sets value:$sets" ] || fail "Redis: $(redis dbsize) keys"
stop_redis
postgres_is_sound
mail_is_there
[ "$(cat /mnt/count)" = $((lockers * turns)) ] || fail "counted to $(cat /mnt/count)"
unmount_all

#!/bin/sh
# cut.sh PORT work SECONDS: has programs that people use make things durable on the server's root, each one after
# another, and says `acked PROGRAM NUMBER` of what it was told. After SECONDS the machine is gone, as if without power.
# cut.sh PORT check PROGRAM=NUMBER...: another machine looks whether all of that is there, and sound.
# shellcheck source-path=SCRIPTDIR/../guest source=common.sh
. /job/common.sh
# shellcheck source-path=SCRIPTDIR source=phases.sh
. /job/phases.sh
# shellcheck source-path=SCRIPTDIR source=debian.sh
. /job/debian.sh
port=$1 what=$2
shift 2

acked() { echo "acked $*"; }

# --- the programs: each until the machine is gone

# What git was asked to commit it shall have synced, its references too.
commit_for_ever() {
  export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_1=core.fsync GIT_CONFIG_VALUE_1=all
  number=0
  while :; do
    number=$((number + 1))
    echo "$number" >"/mnt/git/$((number % 10))"
    program git -C /mnt/git add -A || fail "git add"
    program git -C /mnt/git commit -qm "$number" || fail "git commit"
    acked git "$number"
  done
}

insert_for_ever() { # JOURNAL
  number=0
  while :; do
    number=$((number + 1))
    program sqlite3 "/mnt/sqlite/$1.db" "insert into t values ($number, randomblob(500));" || fail "sqlite, $1"
    acked "sqlite-$1" "$number"
  done
}

set_for_ever() {
  number=0
  while :; do
    number=$((number + 1))
    [ "$(redis set "key:$number" "value:$number")" = OK ] || fail "redis"
    acked redis "$number"
  done
}

bank_for_ever() {
  pgbench -n -c 2 -T 3600 >/tmp/bank.said 2>&1
  fail "pgbench: $(tail -5 /tmp/bank.said)"
}

rows_for_ever() {
  number=0
  while :; do
    number=$((number + 1))
    sql "insert into numbers values ($number)" || fail "postgres"
    acked postgres "$number"
  done
}

write_programs() {
  cat >/host/tmp/deliver.pl <<'END'
# As a mail server delivers: written and synced in tmp, then linked into new.
use strict; use IO::Handle;
$| = 1;
for (my $i = 1; ; $i++) {
  open my $out, '>', "/mnt/mail/tmp/$i" or die "open: $!";
  print $out "Subject: $i\n\n", "x" x (500 * ($i % 20)), "\n";
  $out->flush && $out->sync or die "sync: $!";
  close $out or die "close: $!";
  link "/mnt/mail/tmp/$i", "/mnt/mail/new/$i" or die "link: $!";
  unlink "/mnt/mail/tmp/$i" or die "unlink: $!";
  print "acked mail $i\n";
}
END
  cat >/host/tmp/count.pl <<'END'
# Three processes that add 1 to the number in a file, under flock, and sync it.
use strict; use Fcntl ':flock'; use IO::Handle;
$| = 1;
fork // die "fork: $!" for 1 .. 2; # two of them twice
while (1) {
  open my $f, '+<', '/mnt/count' or die "open: $!";
  flock $f, LOCK_EX or die "flock: $!";
  my $number = <$f> + 1;
  seek $f, 0, 0; print $f "$number\n";
  $f->flush && $f->sync or die "sync: $!";
  close $f or die "close: $!";
  print "acked count $number\n";
}
END
  cat >/host/tmp/unsynced.pl <<'END'
# What nobody syncs, in a file that nobody closes: if all of it is there afterwards, the machine was not cut off.
use strict; use IO::Handle;
$| = 1;
open my $f, '>', '/mnt/unsynced' or die "open: $!";
$f->autoflush;
for (my $i = 1; ; $i++) {
  print $f "$i\n";
  print "acked unsynced $i\n";
  select undef, undef, undef, 0.1;
}
END
}

run_perl() { # SCRIPT
  program perl "/tmp/$1"
  fail "$1"
}

work() { # SECONDS
  mkdir -p /mnt/git /mnt/sqlite /mnt/redis /mnt/postgres /mnt/mail/tmp /mnt/mail/new || fail "mkdir"
  chown "$(stat -c %u:%g /host/var/lib/postgresql)" /mnt/postgres || fail "chown"
  chmod 700 /mnt/postgres || fail "chmod"
  echo 0 >/mnt/count
  program git init -q /mnt/git || fail "git init"
  for journal in delete wal; do
    program sqlite3 "/mnt/sqlite/$journal.db" \
      "pragma journal_mode=$journal; create table t (number, bytes);" >/dev/null || fail "no database"
  done
  write_programs
  start_redis
  make_database 1
  sql 'create table numbers (number int)' || fail "no table"
  sync
  commit_for_ever &
  insert_for_ever delete &
  insert_for_ever wal &
  set_for_ever &
  bank_for_ever &
  rows_for_ever &
  run_perl deliver.pl &
  run_perl unsynced.pl &
  run_perl count.pl &
  sleep "$1"
  # Nothing is synced, unmounted or said to anybody.
  poweroff -f -n
}

# --- what has to be there

at_least() { # PROGRAM NUMBER ACKED
  [ "$2" -ge "$3" ] || fail "$1: $2 are there, of $3 that were acknowledged"
  echo "$1: $2, $3 acknowledged"
}

check_git() {
  rm -f /mnt/git/.git/index.lock /mnt/git/.git/HEAD.lock /mnt/git/.git/refs/heads/*.lock
  program git -C /mnt/git fsck --full >/tmp/fsck.said 2>&1 || fail "git fsck: $(tail -5 /tmp/fsck.said)"
  at_least git "$(program git -C /mnt/git rev-list --count HEAD)" "$1"
}

check_sqlite() { # JOURNAL ACKED
  { echo .timeout 120000 && echo "pragma integrity_check; select count(*) = max(number), max(number) from t;"; } |
    program sqlite3 -bail "/mnt/sqlite/$1.db" >/tmp/sqlite.said 2>&1
  said=$(tr '\n' ' ' </tmp/sqlite.said)
  case $said in "ok 1|"*) ;; *) fail "SQLite, $1: $said" ;; esac
  said=${said#*|}
  at_least "sqlite-$1" "${said% }" "$2"
}

check_redis() {
  start_redis
  for number in $(seq "$1"); do echo "get key:$number"; done | redis >/tmp/redis.said
  seq "$1" | sed 's/^/value:/' | cmp -s - /tmp/redis.said || fail "Redis: not what was set"
  at_least redis "$(redis dbsize)" "$1"
  stop_redis
}

# The process that had it is gone with its machine.
check_postgres() {
  rm -f /mnt/postgres/postmaster.pid
  start_postgres
  said=$(sql 'select (select coalesce(sum(delta), 0) from pgbench_history) =
    all (select sum(abalance) from pgbench_accounts union all select sum(bbalance) from pgbench_branches)')
  [ "$said" = t ] || fail "PostgreSQL: the sums differ"
  at_least postgres "$(sql 'select max(number) from numbers')" "$1"
  postgres_ctl -m fast stop || fail "pg_ctl stop"
  as_postgres /usr/lib/postgresql/15/bin/pg_checksums -c -D /mnt/postgres >/dev/null || fail "pg_checksums"
}

check_mail() {
  for i in $(seq "$1"); do
    [ "$(stat -c %s "/mnt/mail/new/$i")" = $((${#i} + 12 + 500 * (i % 20))) ] || fail "mail $i"
  done
  at_least mail "$(find /mnt/mail/new -type f | wc -l)" "$1"
}

check() { # PROGRAM=NUMBER...
  for acked in "$@"; do
    number=${acked#*=}
    case $acked in
      git=*) check_git "$number" ;;
      sqlite-delete=*) check_sqlite delete "$number" ;;
      sqlite-wal=*) check_sqlite wal "$number" ;;
      redis=*) check_redis "$number" ;;
      postgres=*) check_postgres "$number" ;;
      mail=*) check_mail "$number" ;;
      count=*) at_least count "$(cat /mnt/count)" "$number" ;;
      unsynced=*) [ "$(wc -l </mnt/unsynced)" -lt "$number" ] || fail "what was not synced is there: no cut" ;;
      *) fail "no program '$acked'" ;;
    esac
  done
  unmount_all
}

prepare_client
prepare_root
mount_new "$port"
"$what" "$@"

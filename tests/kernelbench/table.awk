# Two tables, medians: the numbers, and the RPCs by operation. Reads the phases (PHASE and what it is called, a line
# each), then the figures of all runs (SERVER REPEAT PHASE WHAT NUMBER). -v servers="weft knfsd" -v repeats=3
BEGIN {
  server_count = split(servers, server, " ")
  # about the order in which a client sends them; those not named here follow
  operation_count = split("LOOKUP ACCESS READDIR OPEN OPEN_NOATTR LAYOUTGET GETATTR READ WRITE COMMIT " \
    "LAYOUTCOMMIT SETATTR CREATE RENAME REMOVE CLOSE LAYOUTRETURN DELEGRETURN", operations, " ")
  for (o = 1; o <= operation_count; o++) known[operations[o]]
}
FNR == NR { phase[++phases] = $1; sub(/^[^ ]* /, ""); label[phases] = $0; next }
{
  values[$1, $3, $4] = values[$1, $3, $4] " " $5
  if ($4 ~ /^total\./) {
    operation = substr($4, 7)
    if (!(operation in known)) { known[operation]; operations[++operation_count] = operation }
  }
}
END {
  numbers()
  print ""
  by_operation()
}

# A run that says nothing of an operation had none of it.
function median(server, phase, what,    list, n, i, j, low) {
  n = split(values[server, phase, what], list, " ")
  while (n < repeats) list[++n] = 0
  for (i = 1; i <= n; i++)
    for (j = i + 1; j <= n; j++)
      if (list[j] + 0 < list[i] + 0) { low = list[j]; list[j] = list[i]; list[i] = low }
  return list[int((n + 1) / 2)] + 0
}

function short(number,    text) {
  text = sprintf("%.2f", number)
  sub(/\.?0+$/, "", text)
  return text
}

# Both, unless all were waited for.
function pair(server, phase, waited, total,    a, b) {
  a = short(median(server, phase, waited))
  b = short(median(server, phase, total))
  return a == b ? b : a "/" b
}

function processor(server, phase) {
  return (server, phase, "cpu") in values ? sprintf("%.2f", median(server, phase, "cpu")) : "-"
}

function numbers(    p, s) {
  printf "%-26s", ""
  for (s = 1; s <= server_count; s++) printf "  | %-27s", server[s]
  printf "\n%-26s", "phase"
  for (s = 1; s <= server_count; s++) printf "  | %8s %10s %7s", "a second", "RPCs", "CPU ms"
  print ""
  for (p = 1; p <= phases; p++) {
    printf "%-26s", label[p]
    for (s = 1; s <= server_count; s++)
      printf "  | %8.0f %10s %7s", median(server[s], phase[p], "rate"),
        pair(server[s], phase[p], "waited", "total"), processor(server[s], phase[p])
    print ""
  }
  print "RPCs for one: those answered by the end of the work/all in the end, one number if that is the same."
  print "CPU ms: processor time of the server for one, in steps of 10 ms a phase; with what it took in the"
  printf "second after the work. While nobody asks, in a second:"
  for (s = 1; s <= server_count; s++) printf "  %s %s", server[s], processor(server[s], "idle")
  print ""
}

function operations_of(server, phase,    o, text, all) {
  for (o = 1; o <= operation_count; o++) {
    text = pair(server, phase, "waited." operations[o], "total." operations[o])
    if (text != "0") all = all "  " operations[o] " " text
  }
  return all == "" ? "  none" : all
}

function by_operation(    p, s) {
  print "RPCs for one by operation"
  for (p = 1; p <= phases; p++)
    for (s = 1; s <= server_count; s++) {
      printf "%-26s  %-11s", s == 1 ? label[p] : "", server[s]
      print operations_of(server[s], phase[p])
    }
}

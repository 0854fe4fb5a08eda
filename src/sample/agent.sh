#!/bin/sh
# The agent of the sample project: a script in the place of a language model, so that the sample runs without account and
# network. It takes what any agent takes (the prompt on standard input, the task in RUNNER_... variables), does the small
# real work of each task, and leaves through the same commands. What it does depends on its prompt and on the files it
# finds, never on how often it ran.
set -eu

prompt=$(cat)
: "${RUNNER_TASK_ID:?is missing: this script is started by runner}" "${RUNNER_ACTION:?}" "${RUNNER_AGENT_ID:?}"
: "${RUNNER_PROJECT_ROOT:?}" "${RUNNER_BIN:?}"
cd "$RUNNER_PROJECT_ROOT"

# ---- what every session needs ----

say() {
    printf '%s\n' "$*"
}

# put FILE: writes standard input to FILE.
put() {
    mkdir -p "$(dirname "$1")"
    cat >"$1"
    say "wrote $1"
}

# must SCRIPT...: runs each script; the session fails if one of them does. What they print is added to $evidence.
evidence=''
must() {
    for script in "$@"; do
        if output=$(sh "$script" 2>&1); then
            say "passed: sh $script"
            evidence="$evidence\$ sh $script
${output:+$output
}exit status 0
"
        else
            say "FAILED: sh $script" "$output"
            exit 1
        fi
    done
}

# submit SUBJECT CHANGES VALIDATION
submit() {
    say "submitting: $1"
    printf '%s' "$evidence" | "$RUNNER_BIN" task submit --evidence - --subject "$1" --changes "$2" --validation "$3"
}

# expect WHAT WANTED GOT: a reviewer's own look at one line of the acceptance; rejects the task if it does not hold.
seen=''
expect() {
    if [ "$2" = "$3" ]; then
        say "holds: $1"
        seen="$seen$1; "
        return 0
    fi
    say "does not hold: $1"
    "$RUNNER_BIN" task reject --subject "Send $RUNNER_TASK_ID back for repair" \
        --changes "None: a review changes no file." --validation "Tried on own input: $1. It does not hold." --reason "\
$1: this does not hold.
Expected:
$2
Got:
$3
${4:-}"
    exit 0
}

# rerun SCRIPT: a reviewer runs the author's check.
rerun() {
    status=0
    output=$(sh "$1" 2>&1) || status=$?
    expect "sh $1 passes" "exit status 0" "exit status $status" "$output"
}

# approve SUBJECT
approve() {
    say "approving: $1"
    "$RUNNER_BIN" task approve --subject "$1" --changes "None: a review changes no file." --validation "${seen%; }."
}

# ---- S00-001: split a text into words ----

do_words() {
    put tally/words.sh <<'END'
#!/bin/sh
# Prints the words of standard input in lower case, one a line.
LC_ALL=C
export LC_ALL
tr 'A-Z' 'a-z' | tr -cs "a-z'" '\n' | sed -e "s/^'*//" -e "s/'*\$//" -e '/^$/d'
END
    put tally/tests/words.sh <<'END'
#!/bin/sh
# Tests tally/words.sh; started from the project's root.
got=$(printf '%s\n' "It's a hat --" "'The' HAT." | sh tally/words.sh | tr '\n' ' ')
if [ "$got" != "it's a hat the hat " ]; then
    echo "wrong words: $got"
    exit 1
fi
END
    must tally/tests/words.sh
    submit "Split a text into words" "tally/words.sh prints the words of a text, one a line; a test is beside it." \
        "sh tally/tests/words.sh passes."
}

review_words() {
    rerun tally/tests/words.sh
    expect "capitals become small letters and punctuation vanishes" "one two" \
        "$(printf 'One,\n\n...TWO!\n' | sh tally/words.sh | paste -s -d ' ' -)"
    expect "an apostrophe inside a word stays, quotation marks go" "don't stop" \
        "$(printf "'don't' \"stop\"\n" | sh tally/words.sh | paste -s -d ' ' -)"
    expect "an empty text gives no line" "" "$(sh tally/words.sh </dev/null)"
    approve "Accept the word splitter"
}

# ---- S00-002: count each word; the first version has a fault that its own test does not find ----

do_count() {
    finding=$(printf '%s\n' "$prompt" | awk '/more frequent words stand above less frequent ones/ && !found++')
    if [ -n "$finding" ]; then
        say "the handoff says: $finding"
        repair_count
    elif [ -f tally/count.sh ] && [ -f tally/tests/count.sh ]; then
        say "found tally/count.sh from an earlier session"
        must tally/tests/count.sh
        submit "Count how often each word occurs" "tally/count.sh, begun by an earlier session, is complete." \
            "sh tally/tests/count.sh passes."
    else
        write_count
    fi
}

write_count() {
    put tally/count.sh <<'END'
#!/bin/sh
# Reads words, one a line; prints each as "NUMBER WORD", the most frequent first.
LC_ALL=C
export LC_ALL
sort | uniq -c | awk '{ print $1 " " $2 }' | sort -k 1,1r -k 2,2
END
    put tally/tests/count.sh <<'END'
#!/bin/sh
# Tests tally/count.sh; started from the project's root.
got=$(printf '%s\n' b a c b | sh tally/count.sh | tr '\n' ',')
if [ "$got" != "2 b,1 a,1 c," ]; then
    echo "wrong counts: $got"
    exit 1
fi
END
    must tally/tests/count.sh
    submit "Count how often each word occurs" "tally/count.sh counts words, the most frequent first; a test is beside it." \
        "sh tally/tests/count.sh passes."
}

repair_count() {
    put tally/count.sh <<'END'
#!/bin/sh
# Reads words, one a line; prints each as "NUMBER WORD", the most frequent first.
LC_ALL=C
export LC_ALL
sort | uniq -c | awk '{ print $1 " " $2 }' | sort -k 1,1nr -k 2,2
END
    put tally/tests/count.sh <<'END'
#!/bin/sh
# Tests tally/count.sh; started from the project's root.
same() {
    if [ "$1" != "$2" ]; then
        echo "wrong counts: $2"
        exit 1
    fi
}
same "2 b,1 a,1 c," "$(printf '%s\n' b a c b | sh tally/count.sh | tr '\n' ',')"
# Ten is more than nine although "10" sorts before "9" as text.
ten=$(printf '%s\n' x x x x x x x x x x y y y y y y y y y | sh tally/count.sh | tr '\n' ',')
same "10 x,9 y," "$ten"
END
    must tally/tests/count.sh
    submit "Compare word counts as numbers" \
        "tally/count.sh sorts by number instead of by text; a test with a count of ten is new." \
        "sh tally/tests/count.sh passes, also for the case the reviewer found."
}

review_count() {
    rerun tally/tests/count.sh
    expect "words that occur equally often are in alphabetical order" "1 a,1 b," \
        "$(printf '%s\n' b a | sh tally/count.sh | tr '\n' ',')"
    expect "more frequent words stand above less frequent ones, also from ten on" "11 x,9 y," \
        "$(printf '%s\n' y x x x x x y y y y x x x x x x y y y y | sh tally/count.sh | tr '\n' ',')" \
        "The counts are compared as text. Compare them as numbers, and add a test with a count of ten or more."
    approve "Accept the word counter"
}

# ---- S00-003: run all tests with one command ----

do_test() {
    put tally/test.sh <<'END'
#!/bin/sh
# Runs every test in a folder (tally/tests if none is named); started from the project's root.
folder=${1:-tally/tests}
run=0
failed=0
for test in "$folder"/*.sh; do
    [ -f "$test" ] || continue
    run=$((run + 1))
    if output=$(sh "$test" 2>&1); then
        echo "ok      $test"
    else
        failed=$((failed + 1))
        echo "FAILED  $test"
        printf '%s\n' "$output"
    fi
done
echo "tests: $run, failed: $failed"
[ "$run" -gt 0 ] && [ "$failed" -eq 0 ]
END
    must tally/test.sh
    submit "Run all tests with one command" "tally/test.sh runs every test and counts the failures." "sh tally/test.sh passes."
}

review_test() {
    rerun tally/test.sh
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/tally.XXXXXX")
    none=0
    sh tally/test.sh "$scratch" >"$scratch/output" || none=$?
    echo 'exit 1' >"$scratch/broken.sh"
    broken=0
    last=$(sh tally/test.sh "$scratch") || broken=$?
    rm -r "$scratch"
    expect "a folder without tests is a failure" 1 "$none"
    expect "a failing test is a failure" 1 "$broken"
    expect "the last line counts tests and failures" "tests: 1, failed: 1" "$(printf '%s\n' "$last" | tail -n 1)"
    approve "Accept the command that runs all tests"
}

# ---- S01-001: report on a text file; it needs a list that only the writer may make ----

do_report() {
    if [ ! -f tally/stopwords.txt ]; then
        say "tally/stopwords.txt is missing, and the card says that it is the writer's to make: escalating"
        "$RUNNER_BIN" task escalate --issue - <<'END'
{
  "title": "List the words that the report leaves out",
  "reason": "tally/stopwords.txt does not exist; which words it lists is the writer's decision",
  "role": "writer",
  "scope": ["tally/stopwords.txt"],
  "outcome": "tally/stopwords.txt lists the words that say nothing about a text.",
  "steps": ["Write tally/stopwords.txt: one word in small letters a line, in alphabetical order, each once."],
  "acceptance": ["The list is sorted, holds no word twice and nothing but words.", "It holds `the`, `and` and `it`."],
  "checks": ["sort -c -u tally/stopwords.txt"]
}
END
        exit 0
    fi
    put tally/report.sh <<'END'
#!/bin/sh
# Says how many words a file has and which occur most: report.sh FILE [N]
file=${1:-}
most=${2:-5}
here=$(dirname "$0")
if [ ! -f "$file" ]; then
    echo "report: no such file: $file" >&2
    exit 2
fi
all=$(sh "$here/words.sh" <"$file" | wc -l | tr -d ' ')
different=$(sh "$here/words.sh" <"$file" | sort -u | wc -l | tr -d ' ')
echo "$file: $all words, $different different"
sh "$here/words.sh" <"$file" | grep -vxF -f "$here/stopwords.txt" | sh "$here/count.sh" | sed "${most}q"
END
    put tally/tests/report.sh <<'END'
#!/bin/sh
# Tests tally/report.sh on the word list itself, every word of which is left out; started from the project's root.
words=$(wc -l <tally/stopwords.txt | tr -d ' ')
got=$(sh tally/report.sh tally/stopwords.txt)
if [ "$got" != "tally/stopwords.txt: $words words, $words different" ]; then
    echo "wrong report: $got"
    exit 1
fi
END
    must tally/tests/report.sh tally/test.sh
    submit "Report the most frequent words of a file" \
        "tally/report.sh counts the words of a file and lists the most frequent ones that are not in tally/stopwords.txt." \
        "sh tally/tests/report.sh and sh tally/test.sh pass."
}

review_report() {
    rerun tally/tests/report.sh
    rerun tally/test.sh
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/tally.XXXXXX")
    echo 'The cat and the dog, and the cat.' >"$scratch/text"
    got=$(sh tally/report.sh "$scratch/text" | sed -e "s|^$scratch/||" | paste -s -d ',' -)
    rm -r "$scratch"
    expect "the first line counts, and no word of the list is named" "text: 8 words, 4 different,2 cat,1 dog" "$got"
    missing=0
    sh tally/report.sh no/such/file 2>/dev/null || missing=$?
    expect "a missing file gives exit status 2" 2 "$missing"
    approve "Accept the report on a text file"
}

# ---- S01-001-r1: the list, made because the task above asked for it ----

do_list() {
    put tally/stopwords.txt <<'END'
a
an
and
are
as
at
be
but
by
for
from
had
has
he
her
his
in
is
it
its
not
of
on
or
she
so
that
the
their
they
this
to
was
were
with
END
    LC_ALL=C sort -c -u tally/stopwords.txt
    evidence="\$ sort -c -u tally/stopwords.txt
exit status 0
"
    submit "List the words that the report leaves out" "tally/stopwords.txt lists words that say nothing about a text." \
        "sort -c -u tally/stopwords.txt passes: sorted, and no word twice."
}

review_list() {
    sorted=0
    LC_ALL=C sort -c -u tally/stopwords.txt 2>/dev/null || sorted=$?
    expect "the list is sorted and holds no word twice" 0 "$sorted"
    expect "every line is one word" "" "$(grep -v '^[a-z][a-z]*$' tally/stopwords.txt || true)"
    expect "the, and, it are in the list" 3 "$(grep -cx -e the -e and -e it tally/stopwords.txt || true)"
    approve "Accept the list of words to leave out"
}

# ---- S01-002: explain the report on one page ----

do_usage() {
    put tally/example.txt <<'END'
The fox saw the river. The river was wide, and the fox was tired.
So the fox slept by the river, and the river sang to the fox.
In the morning the fox found a boat.
END
    put tally/tests/usage.sh <<'END'
#!/bin/sh
# Compares the example of tally/USAGE.md with what the command prints; started from the project's root.
page=$(sed -n '/^    /s/^    //p' tally/USAGE.md)
real=$(echo '$ sh tally/report.sh tally/example.txt 3' && sh tally/report.sh tally/example.txt 3)
if [ "$page" != "$real" ]; then
    printf '%s\n' "the page shows:" "$page" "the command prints:" "$real"
    exit 1
fi
END
    {
        printf '%s\n' '# Usage' '' 'The report says which words a text uses most. Name a file, and how many words to list' \
            '(5 if you name no number):' ''
        printf '    %s\n' '$ sh tally/report.sh tally/example.txt 3'
        sh tally/report.sh tally/example.txt 3 | sed -e 's/^/    /'
        printf '%s\n' '' 'Words that say nothing about a text are left out; `tally/stopwords.txt` lists them.' \
            'All tests: `sh tally/test.sh`.'
    } | put tally/USAGE.md
    must tally/tests/usage.sh tally/test.sh
    submit "Explain the report on one page" "tally/USAGE.md shows the command with its real output; a test compares the two." \
        "sh tally/tests/usage.sh and sh tally/test.sh pass."
}

review_usage() {
    rerun tally/tests/usage.sh
    rerun tally/test.sh
    expect "the page shows the real first line" "    $(sh tally/report.sh tally/example.txt | sed 1q)" \
        "$(sed -n '/^    tally\/example.txt:/p' tally/USAGE.md)"
    approve "Accept the usage page"
}

# ---- which of them this session is ----

say "I am $RUNNER_AGENT_ID, my task is $RUNNER_TASK_ID ($RUNNER_ACTION)"
case "$RUNNER_ACTION $RUNNER_TASK_ID" in
    'claim S00-001') do_words ;;
    'review S00-001') review_words ;;
    'claim S00-002') do_count ;;
    'review S00-002') review_count ;;
    'claim S00-003') do_test ;;
    'review S00-003') review_test ;;
    'claim S01-001') do_report ;;
    'review S01-001') review_report ;;
    'claim S01-001-r'*) do_list ;;
    'review S01-001-r'*) review_list ;;
    'claim S01-002') do_usage ;;
    'review S01-002') review_usage ;;
    *)
        say "this script knows only the tasks of the sample; put a real agent in runner.local.json" >&2
        exit 1
        ;;
esac

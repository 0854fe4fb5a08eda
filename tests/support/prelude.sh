# What every scripted agent can do; the test's own lines follow. Nothing here may change the work tree by itself.
printf '%s %s %s\n' "$RUNNER_TASK_ID" "$RUNNER_ACTION" "$RUNNER_AGENT_ID" >>"$NOTES/sessions"

# write FILE TEXT: puts one line into a file, making its folder.
write() {
    mkdir -p "$(dirname "$1")" && printf '%s\n' "$2" >"$1"
}

# note NAME TEXT: leaves a line for the test, outside the work tree.
note() {
    printf '%s\n' "$2" >>"$NOTES/$1"
}

# attempt NAME COMMAND...: runs a command and notes its exit status; its output goes to NAME.out.
attempt() {
    attempt_name=$1
    shift
    attempt_status=0
    "$@" >"$NOTES/$attempt_name.out" 2>&1 </dev/null || attempt_status=$?
    note "$attempt_name" "$attempt_status"
}

# seen NAME: whether this is not the first call with this name, over all sessions.
seen() {
    test -e "$NOTES/seen-$1" && return 0
    : >"$NOTES/seen-$1"
    return 1
}

# tell PIPE: says a word to the test, which listens.
tell() {
    printf 'up\n' >"$PIPES/$1"
}

# hold PIPE: waits until the test opens the gate; leaves if the test is gone.
hold() {
    read -r answer <"$PIPES/$1" || exit 9
}

# stray ALIVE READY HOLD: a descendant in a session of its own that ignores TERM and HUP and keeps ALIVE open until HOLD.
stray() {
    setsid sh -c 'trap "" TERM HUP; exec 9>"$1"; echo up >&9; echo ready >"$2"; read -r answer <"$3"' \
        stray "$PIPES/$1" "$PIPES/$2" "$PIPES/$3" &
    read -r answer <"$PIPES/$2"
}

submit() {
    "$RUNNER_BIN" task submit --subject "Write the outcome of $RUNNER_TASK_ID" \
        --changes "The outcome of $RUNNER_TASK_ID." --validation "Read once more." "$@"
}

approve() {
    "$RUNNER_BIN" task approve --subject "Accept the outcome of $RUNNER_TASK_ID" \
        --changes "None, a review." --validation "Read by another." "$@"
}

# reject REASON
reject() {
    "$RUNNER_BIN" task reject --reason "$1" --subject "Send $RUNNER_TASK_ID back for rework" \
        --changes "None, a review." --validation "Read by another."
}

# escalate JSON
escalate() {
    printf '%s' "$1" | "$RUNNER_BIN" task escalate --issue -
}

# message TEXT: the agent's own commit message, as a file.
message() {
    write "state/commit_messages/$RUNNER_AGENT_ID.txt" "$1"
}

# work: the small real outcome of a task, in its scope; one line more where an earlier session left it.
work() {
    if test -e "src/$RUNNER_TASK_ID/out.txt"; then
        printf 'more by %s\n' "$RUNNER_AGENT_ID" >>"src/$RUNNER_TASK_ID/out.txt"
    else
        write "src/$RUNNER_TASK_ID/out.txt" "work of $RUNNER_TASK_ID"
    fi
}

# honest: what a good agent does.
honest() {
    case "$RUNNER_ACTION" in
    claim) work && submit ;;
    review) approve ;;
    esac
}

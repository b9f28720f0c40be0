/* job.pml - the life of a job as a model, for spin (`make model-check`).
 *
 * The rules of schemas/job.h and schemas/bus.md in their smallest form: jobs in an intake stream and
 * in a ledger, two schedulers of which the one with the advisory lock leads, workers with a stream
 * each, and a nature that kills, pauses and loses things FAULTS times at the worst of moments.
 * spin then visits every order in which all of this can happen.
 *
 * Held in every state:
 *     kept    a job is in the stream or in the ledger, always        (ltl kept)
 *     legal   no move but those of the table in schemas/job.c        (assert in move)
 *     once    a job is committed once, by the attempt that holds it  (asserts in commit)
 *     real    a committed picture was stored before                  (assert in commit)
 *     room    while nothing goes wrong, a worker is sent no more than it has room for, and
 *             nothing is tried twice                                 (asserts in the worker)
 * and on every way, if every process that can go on does so (weak fairness):
 *     ends    every job ends: done, failed or cancelled              (ltl ends)
 *
 * Each of these rests on a rule; without the rule spin must find the error:
 *     -DNO_FENCING          a commit does not ask for state and attempt    breaks once
 *     -DACK_BEFORE_INSERT   the stream lets go before the ledger has it    breaks kept
 *     -DTWO_LEADERS         the lock is given to whoever asks              breaks room
 *     -DNO_RECONCILING      the ledger is not compared with the beats      breaks ends
 *
 * Time is not in the model.  A lease is a right to act: a silent worker may be declared lost at any
 * moment, however short its silence was.
 */
#ifndef JOBS
#define JOBS 2
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#define WORKERS 2
#define SCHEDULERS 2
#define TRIES_MAX 2 /* crashes after which a job has failed */
#define NOBODY 9

/* enum kiln_job_state, and what is not in the ledger yet. */
#define QUEUED 0
#define ASSIGNED 1
#define DONE 2
#define FAILED 3
#define CANCELLED 4
#define ABSENT 5

/* --- the ledger ------------------------------------------------------------------------------ */
byte state[JOBS] = ABSENT;
byte attempt[JOBS];
byte holder[JOBS] = NOBODY;
byte crashes[JOBS];
byte committed[JOBS];
byte lock = NOBODY; /* the scheduler that has the advisory lock */

/* --- the bus and the store ------------------------------------------------------------------- */
bool waits[JOBS] = true; /* in the intake stream */
chan stream[WORKERS] = [2] of {byte, byte};
bool stored[JOBS];

/* --- workers: their beats and their hands ---------------------------------------------------- */
bool up[WORKERS] = true; /* neither dead nor paused */
bool born[WORKERS];      /* another incarnation than the one that was assigned something */
byte hand[WORKERS] = NOBODY;
byte hand_attempt[WORKERS];
bool drawn[WORKERS];

/* --- schedulers ------------------------------------------------------------------------------ */
bool leads[SCHEDULERS];     /* believes so */
byte reading[SCHEDULERS] = NOBODY;
bool inserted[SCHEDULERS];  /* what it reads is in the ledger */
bool busy[SCHEDULERS * WORKERS]; /* what it has sent there and not seen end */

byte faults = FAULTS;

#define held(j, w) (state[j] == ASSIGNED && holder[j] == w)
#define over(s) (s == DONE || s == FAILED || s == CANCELLED)

inline move(j, to)
{
    assert((state[j] == QUEUED && (to == ASSIGNED || to == CANCELLED)) ||
           (state[j] == ASSIGNED &&
            (to == DONE || to == FAILED || to == CANCELLED || to == QUEUED)) ||
           ((state[j] == FAILED || state[j] == CANCELLED) && to == QUEUED) ||
           (state[j] == ABSENT && to == QUEUED));
    state[j] = to;
    if
    :: to != ASSIGNED -> holder[j] = NOBODY
    :: else
    fi
}

/* assigned -> queued, or failed; only if this is still the attempt. */
inline give_back(j, a, crashed)
{
    if
    :: state[j] == ASSIGNED && attempt[j] == a ->
        crashes[j] = crashes[j] + crashed;
        if
        :: crashes[j] >= TRIES_MAX -> move(j, FAILED)
        :: else -> move(j, QUEUED)
        fi
    :: else
    fi
}

inline let_go(w)
{
    hand[w] = NOBODY;
    hand_attempt[w] = 0;
    drawn[w] = false
}

inline commit(j, a)
{
#ifdef NO_FENCING
    committed[j]++;
    state[j] = DONE;
#else
    if
    :: state[j] == ASSIGNED && attempt[j] == a ->
        committed[j]++;
        move(j, DONE)
    :: else /* somebody else's, or a repeated commit: nothing is written */
    fi;
#endif
    assert(committed[j] <= 1);
    assert(committed[j] == 0 || stored[j])
}

/* --- a worker -------------------------------------------------------------------------------- */
proctype worker(byte w)
{
    byte j, a;
    do
    /* the listener: an assignment is taken in, or refused when the hands are full */
    :: atomic {
        up[w] && nempty(stream[w]) -> stream[w] ? j, a;
        assert(faults < FAULTS || (a == 1 && hand[w] == NOBODY));
        if
        :: hand[w] == NOBODY -> hand[w] = j; hand_attempt[w] = a
        :: else /* refused, or the same once more */
        fi;
        j = 0;
        a = 0
    }
    /* the ledger is asked, then it is drawn and stored */
    :: atomic {
        up[w] && hand[w] != NOBODY && !drawn[w] ->
        if
        :: held(hand[w], w) && attempt[hand[w]] == hand_attempt[w] ->
            stored[hand[w]] = true;
            drawn[w] = true
        :: else -> let_go(w)
        fi
    }
    /* the commit; its answer may be lost, then it is repeated */
    :: atomic {
        up[w] && drawn[w] ->
        commit(hand[w], hand_attempt[w]);
        if
        :: let_go(w)
        :: faults > 0 -> faults--
        fi
    }
    /* or it cannot be drawn here */
    :: atomic {
        up[w] && hand[w] != NOBODY && !drawn[w] && faults > 0 ->
        faults--;
        give_back(hand[w], hand_attempt[w], 1);
        let_go(w)
    }
    od
}

/* --- a scheduler -----------------------------------------------------------------------------
 * Between losing the lock and noticing it a scheduler goes on acting: every step below is one that
 * it takes because it believes that it leads. */
#define silent(w) (!up[w] || born[w])

/* To the ledger, then to the worker's stream, which may lose it or have it twice. */
#define ASSIGN(j, w)                                                                    \
    :: atomic {                                                                         \
        leads[s] && state[j] == QUEUED && !silent(w) && hand[w] == NOBODY &&            \
            !busy[s * WORKERS + w] ->                                                   \
        move(j, ASSIGNED);                                                              \
        attempt[j]++;                                                                   \
        holder[j] = w;                                                                  \
        busy[s * WORKERS + w] = true;                                                   \
        if                                                                              \
        :: nfull(stream[w]) -> stream[w] ! j, attempt[j]                                \
        :: faults > 0 -> faults--                                                       \
        :: faults > 0 && empty(stream[w]) ->                                            \
            faults--;                                                                   \
            stream[w] ! j, attempt[j];                                                  \
            stream[w] ! j, attempt[j]                                                   \
        fi                                                                              \
    }

/* A silent worker is declared lost: what it held goes back and counts as a crash. */
#define LOSE(j, w)                                                                      \
    :: atomic {                                                                         \
        leads[s] && silent(w) && held(j, w) ->                                          \
        give_back(j, attempt[j], 1);                                                    \
        busy[s * WORKERS + w] = false                                                   \
    }

/* A live worker does not name what it was assigned: back, uncounted. */
#ifdef NO_RECONCILING
#define MISS(j, w)
#else
#define MISS(j, w)                                                                      \
    :: atomic {                                                                         \
        leads[s] && held(j, w) && !silent(w) && empty(stream[w]) &&                     \
            !(hand[w] == j && hand_attempt[w] == attempt[j]) ->                         \
        give_back(j, attempt[j], 0);                                                    \
        busy[s * WORKERS + w] = false                                                   \
    }
#endif

/* The next incarnation begins with nothing in flight; an assignment has ended. */
#define WELCOME(w)                                                                      \
    :: atomic {                                                                         \
        leads[s] && born[w] && up[w] && !held(0, w) && !held(JOBS - 1, w) ->            \
        born[w] = false;                                                                \
        busy[s * WORKERS + w] = false                                                   \
    }                                                                                   \
    :: atomic {                                                                         \
        leads[s] && busy[s * WORKERS + w] && hand[w] == NOBODY && empty(stream[w]) &&   \
            !held(0, w) && !held(JOBS - 1, w) ->                                        \
        busy[s * WORKERS + w] = false                                                   \
    }

#define READ(j)                                                                         \
    :: atomic {                                                                         \
        leads[s] && reading[s] == NOBODY && waits[j] ->                                 \
        reading[s] = j;                                                                 \
        ack_early(j)                                                                    \
    }

inline ack_early(j)
{
#ifdef ACK_BEFORE_INSERT
    waits[j] = false
#else
    skip
#endif
}

/* It forgets all it knew. */
inline resign(s)
{
    leads[s] = false;
    reading[s] = NOBODY;
    inserted[s] = false;
    busy[s * WORKERS] = false;
    busy[s * WORKERS + 1] = false
}

#ifdef TWO_LEADERS
#define lock_is_free true
#define lock_is_gone false
#else
#define lock_is_free (lock == NOBODY)
#define lock_is_gone (lock != s)
#endif

proctype scheduler(byte s)
{
    do
    /* take the lead and read from the ledger what is assigned */
    :: atomic {
        !leads[s] && lock_is_free ->
        lock = s;
        leads[s] = true;
        busy[s * WORKERS] = held(0, 0) || held(JOBS - 1, 0);
        busy[s * WORKERS + 1] = held(0, 1) || held(JOBS - 1, 1)
    }
    /* notice that the lock is gone */
    :: atomic { leads[s] && lock_is_gone -> resign(s) }
    /* intake: read, insert (what is there already stays), acknowledge */
    READ(0)
#if JOBS > 1
    READ(1)
#endif
    :: atomic {
        leads[s] && reading[s] != NOBODY && !inserted[s] ->
        if
        :: state[reading[s]] == ABSENT -> move(reading[s], QUEUED)
        :: else
        fi;
        inserted[s] = true
    }
    :: atomic {
        leads[s] && reading[s] != NOBODY && inserted[s] ->
        waits[reading[s]] = false;
        reading[s] = NOBODY;
        inserted[s] = false
    }
    ASSIGN(0, 0) ASSIGN(0, 1)
    LOSE(0, 0) LOSE(0, 1)
    MISS(0, 0) MISS(0, 1)
#if JOBS > 1
    ASSIGN(1, 0) ASSIGN(1, 1)
    LOSE(1, 0) LOSE(1, 1)
    MISS(1, 0) MISS(1, 1)
#endif
    WELCOME(0) WELCOME(1)
    od
}

/* --- nature, and a person -------------------------------------------------------------------- */
/* kill -9; a pause, beyond the lease or not; the loss of its stream */
#define STRIKE_WORKER(w)                                                                \
    :: atomic {                                                                         \
        faults > 0 && up[w] ->                                                          \
        faults--;                                                                       \
        up[w] = false;                                                                  \
        born[w] = true;                                                                 \
        let_go(w)                                                                       \
    }                                                                                   \
    :: atomic { faults > 0 && up[w] -> faults--; up[w] = false }                        \
    :: atomic { !up[w] -> up[w] = true }                                               \
    :: atomic {                                                                         \
        faults > 0 && nempty(stream[w]) ->                                              \
        faults--;                                                                       \
        do                                                                              \
        :: nempty(stream[w]) -> stream[w] ? _, _                                        \
        :: empty(stream[w]) -> break                                                    \
        od                                                                              \
    }

/* kill -9: its connection ends and the lock with it; a pause: Postgres ends the silent session, and
 * the scheduler does not know */
#define STRIKE_SCHEDULER(s)                                                             \
    :: atomic {                                                                         \
        faults > 0 && leads[s] ->                                                       \
        faults--;                                                                       \
        resign(s);                                                                      \
        if                                                                              \
        :: lock == s -> lock = NOBODY                                                   \
        :: else                                                                         \
        fi                                                                              \
    }                                                                                   \
    :: atomic { faults > 0 && lock == s -> faults--; lock = NOBODY }

/* a person cancels a job, or wants one tried again */
#define ORDER(j)                                                                        \
    :: atomic {                                                                         \
        faults > 0 && (state[j] == QUEUED || state[j] == ASSIGNED) ->                   \
        faults--;                                                                       \
        move(j, CANCELLED)                                                              \
    }                                                                                   \
    :: atomic {                                                                         \
        faults > 0 && (state[j] == FAILED || state[j] == CANCELLED) ->                  \
        faults--;                                                                       \
        crashes[j] = 0;                                                                 \
        move(j, QUEUED)                                                                 \
    }

proctype nature()
{
    do
    STRIKE_WORKER(0) STRIKE_WORKER(1)
    STRIKE_SCHEDULER(0) STRIKE_SCHEDULER(1)
    ORDER(0)
#if JOBS > 1
    ORDER(1)
#endif
    od
}

init
{
    byte i;
    atomic {
        for (i : 0 .. WORKERS - 1) {
            run worker(i)
        }
        for (i : 0 .. SCHEDULERS - 1) {
            run scheduler(i)
        }
        run nature()
    }
}

#if JOBS > 1
ltl kept { [] ((waits[0] || state[0] != ABSENT) && (waits[1] || state[1] != ABSENT)) }
ltl ends { <> (over(state[0]) && over(state[1])) }
#else
ltl kept { [] (waits[0] || state[0] != ABSENT) }
ltl ends { <> over(state[0]) }
#endif

-- 0006_standing.sql - standing orders, what is held back, and quotas.
--
-- All three are written by people and read by the leading scheduler twice a second; a handful of
-- rows each.  Nothing here changes the state of a job: a job that is held waits, as any other.

-- Prompts that the scheduler draws again and again when nobody else wants the GPUs.  Its jobs are
-- those of one batch, so that their identity (batch, key), which is made of the job's line and its
-- seed, lets no prompt have the same seed twice, and the sums of the batch say how much waits.
CREATE TABLE backfill (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    batch_id    bigint NOT NULL UNIQUE REFERENCES batch,
    created_at  timestamptz NOT NULL DEFAULT now(),
    -- What was asked for.
    pass_jobs   bigint NOT NULL,              -- jobs that all lines make once
    mark        bigint NOT NULL CHECK (mark > 0),   -- the most of it that may wait or run
    until_jobs  bigint,                       -- it ends with so many, or then; NULL: never
    until_at    timestamptz,
    rate        double precision CHECK (rate > 0),  -- jobs an hour; NULL: as many as the mark lets
    width       integer NOT NULL,             -- of a line that names no size
    height      integer NOT NULL,
    window_from smallint,                     -- minutes of the scheduler's local day; NULL: always
    window_to   smallint,
    seed_fixed  boolean NOT NULL,             -- one pass with the seeds of the lines
    pool        text NOT NULL,
    name        text NOT NULL,
    who         text NOT NULL,                -- that gave it
    overrides   text NOT NULL,                -- a JSON object of job keys, or ''
    -- Where it stands.
    cursor      bigint NOT NULL DEFAULT 0,    -- jobs walked over: passes * pass_jobs + place
    made        bigint NOT NULL DEFAULT 0,    -- of them, those that were new
    due_at      timestamptz NOT NULL DEFAULT now(), -- of a rate: when the next one may be made
    topped_at   timestamptz,
    error       text,                         -- it stands still because of this
    UNIQUE (pool, name)
) WITH (fillfactor = 50);

-- Its lines, as they were given; each makes `jobs` jobs, beginning with number `first` of a pass.
CREATE TABLE backfill_line (
    backfill_id bigint NOT NULL REFERENCES backfill ON DELETE CASCADE,
    first       bigint NOT NULL,
    jobs        bigint NOT NULL CHECK (jobs > 0),
    line        text NOT NULL,
    PRIMARY KEY (backfill_id, first)
);

-- What is not handed out.  A row stays when it is lifted: whoever orders the opposite is told of
-- the one before.  The scheduler itself writes scope window (a standing order outside its hours)
-- and quota (a tenant that has used its GPU-seconds of the day).
CREATE TABLE hold (
    held   boolean NOT NULL,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    until  timestamptz,                       -- the scheduler lifts it then; NULL: somebody must
    pool   text NOT NULL,
    scope  text NOT NULL CHECK (scope IN
           ('all', 'backfill', 'order', 'tenant', 'group', 'window', 'quota')),
    name   text NOT NULL,                     -- '' for all and backfill
    who    text NOT NULL,
    reason text NOT NULL DEFAULT '',
    PRIMARY KEY (pool, scope, name)
) WITH (fillfactor = 50);

-- How much a tenant may have waiting, and use of the GPUs in a day (UTC).  Tenant '*' is everybody
-- who has no row.
CREATE TABLE quota (
    queued        bigint CHECK (queued >= 0),
    gpu_s_day     double precision CHECK (gpu_s_day >= 0),
    at            timestamptz NOT NULL DEFAULT now(),
    pool          text NOT NULL,
    tenant        text NOT NULL,
    who           text NOT NULL,
    PRIMARY KEY (pool, tenant)
);

-- 0001_ledger.sql - the ledger: which jobs exist, where each stands, which pictures exist.
--
-- Reading order: batch, job (the record and its state), event (every move), then what a done job
-- leaves behind: image, object, latent.  At the end the accounts of intake and the workers.
--
-- Small integers are the enum numbers of schemas/job.h and schemas/error.h:
--   job.state  0 queued, 1 assigned, 2 done, 3 failed, 4 cancelled
--   job.kind   0 image, 1 latent-cache      job.latents  0 final, 1 trajectory, 2 none
--   code       enum kiln_code; 0 is none
-- Only storage/ledger_move.c changes job.state; the trigger at the end of `job` refuses a move
-- that is not in the table of schemas/job.h, whoever tries it.

CREATE TABLE batch (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pool       text NOT NULL,
    name       text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (pool, name)
);

-- Jobs of a batch by state, as sums over a few rows a batch: each connection adds to the row of its
-- own shard (its process number modulo 32), so that workers that commit at the same moment do not
-- queue for one counter.  A single row may be negative; the sums never are.
CREATE TABLE batch_tally (
    batch_id  bigint NOT NULL REFERENCES batch ON DELETE CASCADE,
    shard     smallint NOT NULL,
    queued    bigint NOT NULL DEFAULT 0,
    assigned  bigint NOT NULL DEFAULT 0,
    done      bigint NOT NULL DEFAULT 0,
    failed    bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (batch_id, shard)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

CREATE TABLE job (
    -- Fixed at intake.
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    batch_id        bigint NOT NULL REFERENCES batch,
    created_at      timestamptz NOT NULL DEFAULT now(),
    seed            numeric(20, 0) NOT NULL,      -- 0 .. 2^64 - 1
    guidance        double precision NOT NULL,
    index           bigint NOT NULL,              -- position in the batch, 0 .. 2^32 - 1
    width           integer NOT NULL,
    height          integer NOT NULL,
    steps           integer NOT NULL,
    max_wait_s      integer NOT NULL,             -- 0: no promise
    priority        smallint NOT NULL,
    kind            smallint NOT NULL,
    latents         smallint NOT NULL,
    teleport        smallint NOT NULL,
    embed_metadata  boolean NOT NULL,
    lora_auto       boolean NOT NULL,
    pool            text NOT NULL,
    key             text COLLATE "C" NOT NULL CHECK (key <> ''), -- identity within the batch
    token           text NOT NULL,                -- the enqueue call that brought it, or ''
    custom_id       text,
    prompt          text NOT NULL,
    negative_prompt text NOT NULL,
    style           text,
    tenant          text NOT NULL,
    model           text NOT NULL,                -- '': the pool's model
    loras           jsonb NOT NULL,               -- [{"name", "scale"}]
    lora_set        text NOT NULL,                -- canonical text of the same
    -- Changes with every move.
    state           smallint NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 4),
    error_code      smallint NOT NULL DEFAULT 0,  -- of the last failure
    attempt         integer NOT NULL DEFAULT 0,   -- only grows: the fence of a commit
    tries           integer NOT NULL DEFAULT 0,   -- attempts that count against max_attempts
    crashes         integer NOT NULL DEFAULT 0,   -- attempts whose worker died
    queued_at       timestamptz NOT NULL DEFAULT now(),
    not_before      timestamptz NOT NULL DEFAULT '-infinity',
    assigned_at     timestamptz,
    finished_at     timestamptz,
    worker          text,                         -- of the last assignment
    assignment      text,
    error           text,                         -- of the last failure, for people
    UNIQUE (batch_id, key)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

-- What the scheduler reads; each holds only the rows that are in that state now.
CREATE INDEX job_queued ON job (pool, id) WHERE state = 0;
CREATE INDEX job_assigned ON job (pool, worker) WHERE state = 1;
CREATE INDEX job_unlucky ON job (batch_id, id) WHERE state IN (3, 4);

CREATE FUNCTION job_refuse_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'job %: no move leads from state % to state %', OLD.id, OLD.state, NEW.state
        USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER job_move_is_legal BEFORE UPDATE OF state ON job FOR EACH ROW
    WHEN ((OLD.state, NEW.state) NOT IN
          ((0, 1), (0, 4), (1, 0), (1, 2), (1, 3), (1, 4), (3, 0), (4, 0)))
    EXECUTE FUNCTION job_refuse_move();

-- Every move of a job, in order of id.  Intake is job.created_at.
CREATE TABLE event (
    id      bigint GENERATED ALWAYS AS IDENTITY,
    job_id  bigint NOT NULL,
    at      timestamptz NOT NULL DEFAULT now(),
    was     smallint NOT NULL,
    state   smallint NOT NULL,
    code    smallint NOT NULL,
    attempt integer NOT NULL,
    worker  text,
    reason  text,
    PRIMARY KEY (job_id, id)
);

-- A picture that exists: written in the same transaction as the job's move to done, once a job.
CREATE TABLE image (
    job_id          bigint PRIMARY KEY REFERENCES job,
    batch_id        bigint NOT NULL REFERENCES batch,
    created_at      timestamptz NOT NULL DEFAULT now(),
    seed            numeric(20, 0) NOT NULL,
    guidance        double precision NOT NULL,
    width           integer NOT NULL,
    height          integer NOT NULL,
    steps           integer NOT NULL,
    attempt         integer NOT NULL,
    wait_ms         real NOT NULL,                -- stage times
    text_ms         real NOT NULL,
    denoise_ms      real NOT NULL,
    decode_ms       real NOT NULL,
    encode_ms       real NOT NULL,
    upload_ms       real NOT NULL,
    safety_score    real,                         -- NULL: nobody has looked yet
    safety_flag     smallint,                     -- a level, 0 is safe
    safety_source   text,                         -- the model or the person that said so
    pool            text NOT NULL,
    prompt          text NOT NULL,
    negative_prompt text NOT NULL,
    prompt_hash     text NOT NULL,                -- schemas/job_line.h: kiln_prompt_hash
    model           text NOT NULL,                -- as the job asked
    model_name      text NOT NULL,                -- as the worker had it
    model_hash      text NOT NULL,
    loras           jsonb NOT NULL,
    lora_set        text NOT NULL,
    style           text,
    tenant          text NOT NULL,
    worker          text NOT NULL
);
CREATE INDEX image_batch ON image (batch_id, job_id);
CREATE INDEX image_prompt_hash ON image (prompt_hash);

-- An object of the store that a row vouches for.  What the store holds beyond these is garbage.
CREATE TABLE object (
    job_id       bigint NOT NULL REFERENCES job,
    bytes        bigint NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    width        integer NOT NULL,
    height       integer NOT NULL,
    role         text NOT NULL,                   -- full, 512, 256, latent
    key          text COLLATE "C" NOT NULL UNIQUE,
    sha256       text NOT NULL,
    content_type text NOT NULL,
    PRIMARY KEY (job_id, role)
);

-- A stored latent and what a look-up asks for.  sigma is of the last state; 0 is the clean latent.
CREATE TABLE latent (
    job_id      bigint PRIMARY KEY REFERENCES job,
    created_at  timestamptz NOT NULL DEFAULT now(),
    sigma       double precision NOT NULL,
    seed        numeric(20, 0) NOT NULL,
    guidance    double precision NOT NULL,
    width       integer NOT NULL,                 -- of the picture
    height      integer NOT NULL,
    steps       integer NOT NULL,
    states      integer NOT NULL,                 -- in the file: 1, or one a step and the last
    shape       integer[] NOT NULL,               -- of one state: channels, height, width
    key         text COLLATE "C" NOT NULL UNIQUE REFERENCES object (key),
    encoding    text NOT NULL,
    model       text NOT NULL,
    model_hash  text NOT NULL,
    lora_set    text NOT NULL,
    prompt_hash text NOT NULL
);
CREATE INDEX latent_look_up ON latent (prompt_hash, model_hash, width, height);

-- One enqueue call: what it announced and what became of it.  A batch is whole when no call with a
-- token is open (announced NULL) or short (accepted + duplicate + refused < announced).
CREATE TABLE intake_call (
    batch_id  bigint NOT NULL REFERENCES batch,
    token     text NOT NULL,
    announced bigint,
    accepted  bigint NOT NULL DEFAULT 0,
    duplicate bigint NOT NULL DEFAULT 0,
    refused   bigint NOT NULL DEFAULT 0,
    entry     bigint NOT NULL DEFAULT 0,          -- newest stream entry counted: ms * 2^20 + seq
    PRIMARY KEY (batch_id, token)
) WITH (fillfactor = 50);

CREATE TABLE intake_refusal (
    batch_id bigint NOT NULL REFERENCES batch,
    at       timestamptz NOT NULL DEFAULT now(),
    token    text NOT NULL,
    key      text NOT NULL,
    reason   text NOT NULL,
    PRIMARY KEY (batch_id, token, key)
);

-- What people see of workers, also of those that are gone.  Leases are on the bus, not here.
CREATE TABLE worker (
    pool       text NOT NULL,
    name       text NOT NULL,
    host       text NOT NULL,
    device     text NOT NULL,
    state      text NOT NULL,
    first_seen timestamptz NOT NULL DEFAULT now(),
    last_seen  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pool, name)
) WITH (fillfactor = 50);

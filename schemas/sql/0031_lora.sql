-- 0031_lora.sql - the registry of LoRAs: names, the file behind each, and the texts that choose it.
--
-- A row of lora is immutable but for `until`.  Every change raises the version of the pool's registry
-- in the same transaction, ends the row before (until = that version) and adds one (since = that
-- version).  So the registry at version V is the rows with since <= V < until, for ever.
--
-- A job names the file that it is rendered with: "sha256" in the entries of job.loras.  Entries
-- without it are of an earlier release, or of a LoRA that only workers have.

CREATE TABLE lora_registry (
    pool    text PRIMARY KEY,
    version bigint NOT NULL
);

-- What is known of a file's bytes.  rank and modules 0, strength NULL: nobody has measured it.
CREATE TABLE lora_file (
    bytes    bigint NOT NULL,
    strength double precision,       -- root of the mean over its modules of (|change| / |weight|)^2
    rank     integer NOT NULL,       -- the highest of its modules
    modules  integer NOT NULL,       -- of the model, that it changes
    stored   boolean NOT NULL,       -- the store has loras/<sha256>.safetensors
    at       timestamptz NOT NULL DEFAULT now(),
    sha256   text COLLATE "C" PRIMARY KEY CHECK (sha256 ~ '^[0-9a-f]{64}$')
);

CREATE TABLE lora (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lora     bigint NOT NULL,        -- the same through all changes: the id of its first row
    since    bigint NOT NULL,        -- versions of the registry
    until    bigint CHECK (until > since), -- NULL: now
    at       timestamptz NOT NULL DEFAULT now(),
    enabled  boolean NOT NULL,       -- the router may choose it
    routable boolean NOT NULL,       -- enabled, and there is a text by which it can be chosen
    seen     boolean NOT NULL,       -- found in a directory of LoRAs: nobody added it
    pool     text NOT NULL,
    name     text COLLATE "C" NOT NULL,
    tenant   text NOT NULL,          -- whose alone it is; '': everybody's
    sha256   text COLLATE "C" NOT NULL REFERENCES lora_file,
    who      text NOT NULL,          -- that made this row
    entry    jsonb NOT NULL          -- as in loras.json, its name too
);
CREATE UNIQUE INDEX lora_name ON lora (pool, name) WHERE until IS NULL;
CREATE INDEX lora_history ON lora (lora, since);
CREATE INDEX lora_sha256 ON lora (sha256);

-- The one way in which the registry changes.  ends: the row to end, 0 for a new LoRA; facts: a row of
-- lora_file, or NULL where the file is known; new_entry NULL: the LoRA is removed.  Returns the version
-- that holds the change; 0: the row had ended already by another change; -1: another LoRA has the name.
-- The same call again changes nothing and returns the same.  The lock of the registry's row lets the
-- changes of a pool follow each other, so versions become visible in their order.  The advisory lock
-- is that of `kiln gc`, which removes the objects of files that nothing names.
CREATE FUNCTION lora_change(in_pool text, ends bigint, new_name text, new_tenant text,
    new_sha256 text, facts jsonb, new_enabled boolean, new_routable boolean, new_seen boolean,
    new_who text, new_entry jsonb) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    now_at bigint;
    old lora;
    other lora;
BEGIN
    PERFORM pg_advisory_xact_lock(1802268530, hashtext(new_sha256));
    INSERT INTO lora_registry VALUES (in_pool, 0) ON CONFLICT DO NOTHING;
    SELECT version INTO now_at FROM lora_registry WHERE pool = in_pool FOR UPDATE;
    IF facts IS NOT NULL THEN
        INSERT INTO lora_file AS f (sha256, bytes, strength, rank, modules, stored)
        VALUES (new_sha256, (facts ->> 'bytes')::bigint, (facts ->> 'strength')::float8,
            (facts ->> 'rank')::integer, (facts ->> 'modules')::integer,
            (facts ->> 'stored')::boolean)
        ON CONFLICT (sha256) DO UPDATE SET stored = f.stored OR excluded.stored,
            strength = coalesce(excluded.strength, f.strength),
            rank = CASE excluded.modules WHEN 0 THEN f.rank ELSE excluded.rank END,
            modules = CASE excluded.modules WHEN 0 THEN f.modules ELSE excluded.modules END;
    END IF;
    IF ends <> 0 THEN
        SELECT * INTO old FROM lora WHERE id = ends AND pool = in_pool;
        IF NOT FOUND THEN
            RETURN 0;
        END IF;
        SELECT * INTO other FROM lora WHERE lora = old.lora AND since = old.until;
        IF old.until IS NOT NULL THEN -- by this very call, if it comes again
            RETURN CASE WHEN other IS NULL AND new_entry IS NULL OR (other.name, other.tenant,
                other.sha256, other.enabled, other.seen, other.entry) = (new_name, new_tenant,
                new_sha256, new_enabled, new_seen, new_entry) THEN old.until ELSE 0 END;
        END IF;
        IF (old.name, old.tenant, old.sha256, old.enabled, old.seen, old.entry) = (new_name,
            new_tenant, new_sha256, new_enabled, new_seen, new_entry) THEN
            RETURN now_at;
        END IF;
    END IF;
    SELECT * INTO other FROM lora WHERE pool = in_pool AND name = new_name AND until IS NULL;
    IF FOUND AND other.lora IS DISTINCT FROM old.lora THEN
        RETURN CASE WHEN ends = 0 AND (other.tenant, other.sha256, other.enabled, other.seen,
            other.entry) = (new_tenant, new_sha256, new_enabled, new_seen, new_entry)
            THEN other.since ELSE -1 END;
    END IF;
    UPDATE lora_registry SET version = now_at + 1 WHERE pool = in_pool;
    UPDATE lora SET until = now_at + 1 WHERE id = ends;
    IF new_entry IS NOT NULL THEN
        INSERT INTO lora (lora, since, enabled, routable, seen, pool, name, tenant, sha256, who,
            entry)
        VALUES (coalesce(old.lora, 0), now_at + 1, new_enabled, new_routable, new_seen, in_pool,
            new_name, new_tenant, new_sha256, new_who, new_entry) RETURNING id INTO ends;
        UPDATE lora SET lora = id WHERE id = ends AND lora = 0;
    END IF;
    RETURN now_at + 1;
END $$;

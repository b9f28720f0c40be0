-- 0014_gallery.sql - what a gallery of a million pictures needs beside the pictures.
--
-- A follower (storage/ledger/gallery/follow.h) keeps the tables gallery_* in step with image.  Nobody
-- else writes them, and all of them can be made again from the ledger.

-- The transaction that wrote the row last.  job_id is no watermark: pictures are committed hours
-- after their job came, in any order.  With a snapshot, `changed` is one: a row is new to whoever
-- read in an earlier snapshot if that snapshot did not see its transaction.
ALTER TABLE image ADD COLUMN changed xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE FUNCTION image_set_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.changed := pg_current_xact_id();
    RETURN NEW;
END $$;
CREATE TRIGGER image_changes BEFORE UPDATE ON image FOR EACH ROW EXECUTE FUNCTION image_set_changed();

-- Changes that leave no row of image to look at, or that are in another table: a picture removed, a
-- star given or taken.  The follower looks up what became of the job and removes old rows.
CREATE TABLE image_change (
    changed xid8 NOT NULL DEFAULT pg_current_xact_id(),
    job_id  bigint NOT NULL,
    PRIMARY KEY (changed, job_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
-- Whoever may remove a picture or star it needs no right to this table.
CREATE FUNCTION image_note_change() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO image_change (job_id) SELECT job_id FROM touched ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER image_goes AFTER DELETE ON image REFERENCING OLD TABLE AS touched
    FOR EACH STATEMENT EXECUTE FUNCTION image_note_change();
CREATE TRIGGER favourite_comes AFTER INSERT ON favourite REFERENCING NEW TABLE AS touched
    FOR EACH STATEMENT EXECUTE FUNCTION image_note_change();
CREATE TRIGGER favourite_goes AFTER DELETE ON favourite REFERENCING OLD TABLE AS touched
    FOR EACH STATEMENT EXECUTE FUNCTION image_note_change();

-- What a picture is found by: the words of its prompt and names with their positions, and a lexeme
-- for each filter (storage/ledger/gallery/document.h).  Narrow and not in TOAST, because searches
-- walk it; statistics of 1,000 lexemes as against the default of 100, which has plans of a second.
CREATE TABLE gallery_text (
    job_id bigint PRIMARY KEY,
    day    date NOT NULL,                     -- UTC, of created_at
    level  smallint,                          -- image.safety_flag; NULL: not checked
    pool   text NOT NULL,
    tsv    tsvector NOT NULL
) WITH (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE gallery_text ALTER COLUMN tsv SET STATISTICS 1000;
CREATE INDEX gallery_text_words ON gallery_text USING gin (tsv) WITH (fastupdate = off);

-- Pictures of gallery_text by day, and the range of their jobs, which only grows.
CREATE TABLE gallery_day (
    pool      text NOT NULL,
    day       date NOT NULL,
    level     smallint NOT NULL,              -- -1: not checked
    pictures  bigint NOT NULL,
    first_job bigint NOT NULL,
    last_job  bigint NOT NULL,
    PRIMARY KEY (pool, day, level)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Words of pictures and how many pictures had them when they were counted, for "did you mean".
CREATE TABLE gallery_word (
    word     text COLLATE "C" PRIMARY KEY,
    pictures bigint NOT NULL
);

-- How far the follower is.  A row a cluster: transaction numbers of another one mean nothing here.
CREATE TABLE gallery_state (
    cluster  bigint PRIMARY KEY,              -- pg_control_system().system_identifier
    snapshot pg_snapshot NOT NULL,            -- all changes that it saw are in gallery_text
    rebuilt  bigint,                          -- pictures of jobs up to this are there; NULL: all
    counted  bigint NOT NULL DEFAULT 0,       -- their words are in gallery_word
    version  integer NOT NULL,                -- of the form of tsv
    at       timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- The meaning of a prompt, once for all its pictures.  Vectors of different recipes are never
-- compared.
CREATE TABLE gallery_vector (
    prompt_hash text COLLATE "C" NOT NULL,    -- image.prompt_hash
    recipe      text COLLATE "C" NOT NULL,    -- model, pooling and dimensions
    made_at     timestamptz NOT NULL DEFAULT now(),
    scale       real NOT NULL,                -- of v: value = scale * byte
    v           bytea NOT NULL,               -- a signed byte a dimension
    sketch      bytea NOT NULL,               -- 512 signs of fixed random projections
    tokens      bytea,                        -- of caption features: a row a token; NULL: none
    PRIMARY KEY (recipe, prompt_hash)
) WITH (toast_tuple_target = 8160);

ALTER TABLE gallery_vector ALTER COLUMN tokens SET STORAGE EXTERNAL;

-- What was computed from the pixels of a picture; NULL: not yet.
CREATE TABLE gallery_picture (
    job_id   bigint PRIMARY KEY,
    quality  smallint,                        -- of pdq, 0 .. 100
    colour   integer,                         -- mean, 0xRRGGBB
    pdq      bytea,                           -- 32 bytes
    low_pass bytea,                           -- 256 bytes, of the final latent
    thumb    bytea                            -- ThumbHash
) WITH (toast_tuple_target = 8160);

-- Every opinion on the level of a picture.  The one that counts is in image: a person's before a
-- model's before a rule's.
CREATE TABLE safety_verdict (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id bigint NOT NULL,
    at     timestamptz NOT NULL DEFAULT now(),
    level  smallint CHECK (level >= 0),       -- NULL: a person took theirs back
    rank   smallint NOT NULL CHECK (rank BETWEEN 0 AND 2), -- 0 rule, 1 model, 2 person
    score  real,
    source text NOT NULL                      -- "rule:1", "model:NAME", "person:NAME"
);
CREATE INDEX safety_verdict_job ON safety_verdict (job_id, id);

-- 0012_modes.sql - how a picture comes about: exact, coarse first, or from a start.
--
-- mode is the text of schemas/job/mode.h; '' is exact, as is every row from before.  forwards: what
-- the run cost, in steps at the picture's own size; NULL: as many as its steps.
-- In rows of cost of the kinds 0 and 1 the column lora_set, which they do not use, is the mode.

-- init_image: the key of an object.  init_job: whose latent is the start.  parent: the job that this
-- one was made from, for people; 0 is none.  A job stays when the one it names is removed.
ALTER TABLE job ADD COLUMN mode text NOT NULL DEFAULT '', ADD COLUMN init_image text,
    ADD COLUMN init_job bigint NOT NULL DEFAULT 0, ADD COLUMN parent bigint NOT NULL DEFAULT 0;
ALTER TABLE image ADD COLUMN mode text NOT NULL DEFAULT '', ADD COLUMN forwards real;
ALTER TABLE latent ADD COLUMN mode text NOT NULL DEFAULT '', ADD COLUMN forwards real;

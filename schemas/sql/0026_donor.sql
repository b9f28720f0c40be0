-- 0026_donor.sql - runs that begin from the stored latent of another job, the donor.
--
-- image.donor: the job whose latent the scheduler chose; NULL: none.  hit: how like the prompts are,
-- enum kiln_reuse_class of schemas/reuse/guard.h.  fallback: why the run began from noise all the
-- same; NULL: it did not.  What was skipped is steps - forwards of a picture whose mode begins with
-- 'teleport'.
ALTER TABLE image ADD COLUMN donor bigint, ADD COLUMN hit smallint, ADD COLUMN fallback text;

-- The transaction that wrote the row, as image.changed (0014): what the scheduler's index of donors
-- has not seen yet.
ALTER TABLE latent ADD COLUMN changed xid8 NOT NULL DEFAULT pg_current_xact_id();
-- Latents that were removed.
CREATE TABLE latent_gone (
    changed xid8 NOT NULL DEFAULT pg_current_xact_id(),
    job_id  bigint NOT NULL,
    PRIMARY KEY (changed, job_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
-- Whoever may remove a latent needs no right to this table.
CREATE FUNCTION latent_note_gone() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO latent_gone (job_id) SELECT job_id FROM touched ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER latent_goes AFTER DELETE ON latent REFERENCING OLD TABLE AS touched
    FOR EACH STATEMENT EXECUTE FUNCTION latent_note_gone();

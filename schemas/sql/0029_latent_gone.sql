-- 0029_latent_gone.sql - what is known of removed latents is forgotten in time, whether or not a
-- scheduler reads it.  A reader that is further behind gives a donor that has gone: a full run.
CREATE FUNCTION latent_gone_prune(kept_xids bigint) RETURNS void LANGUAGE sql AS $$
    DELETE FROM latent_gone WHERE (changed, job_id) IN (
        SELECT changed, job_id FROM latent_gone
        WHERE changed < greatest(0, pg_snapshot_xmin(pg_current_snapshot())::text::bigint
                                    - kept_xids)::text::xid8
        ORDER BY changed, job_id LIMIT 5000 FOR UPDATE SKIP LOCKED)
$$;
CREATE OR REPLACE FUNCTION latent_note_gone() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO latent_gone (job_id) SELECT job_id FROM touched ON CONFLICT DO NOTHING;
    PERFORM latent_gone_prune(1000000);
    RETURN NULL;
END $$;

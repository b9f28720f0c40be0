-- 0033_lora_garbage.sql - when the file of a LoRA may leave the store.

-- lora_file.at: since when it is in use, or out of use: schedulers go by a list that is seconds old.
CREATE FUNCTION lora_note_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lora_file SET at = now() WHERE sha256 = OLD.sha256;
    RETURN NULL;
END $$;
CREATE TRIGGER lora_ends AFTER UPDATE OF until ON lora FOR EACH ROW EXECUTE FUNCTION lora_note_end();

-- Whether no row of now needs the file, nor a job that may still run or whose picture or latent is
-- kept.  Then it counts as gone from the store, and the caller removes it before its transaction ends:
-- the lock is that of lora_change, so nobody registers the file meanwhile.  Volatile, so that each
-- statement sees what was committed before the lock was there.
CREATE FUNCTION lora_file_free(in_sha256 text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1802268530, hashtext(in_sha256));
    IF EXISTS (SELECT FROM lora WHERE sha256 = in_sha256 AND until IS NULL)
        OR EXISTS (SELECT FROM lora_file WHERE sha256 = in_sha256
            AND at > now() - interval '1 hour')
        OR EXISTS (SELECT FROM job j WHERE j.loras <> '[]'
            AND jsonb_path_query_array(j.loras, '$[*].sha256') ? in_sha256
            AND (j.state <> 2 OR EXISTS (SELECT FROM image WHERE job_id = j.id)
                OR EXISTS (SELECT FROM latent WHERE job_id = j.id)))
    THEN
        RETURN false;
    END IF;
    UPDATE lora_file SET stored = false WHERE sha256 = in_sha256 AND stored;
    RETURN true;
END $$;

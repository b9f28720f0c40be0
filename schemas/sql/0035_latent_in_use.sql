-- 0035_latent_in_use.sql - which stored latents must not be evicted from the cache now.
--
-- assignment.donors: jobs from whose latents jobs of the assignment begin, as the scheduler chose.
ALTER TABLE assignment ADD COLUMN donors bigint[] NOT NULL DEFAULT '{}';

-- Notes the donors of an assignment; returns those whose latents exist.  The lock keeps them until
-- the note can be seen.  The scheduler needs no right to change latents for it.
CREATE FUNCTION assignment_note_donors(of_pool text, of_id text, wanted bigint[])
RETURNS SETOF bigint LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    WITH there AS MATERIALIZED (
        SELECT job_id FROM latent WHERE job_id = ANY (wanted) ORDER BY job_id FOR KEY SHARE
    ), noted AS (
        UPDATE assignment SET donors = ARRAY(SELECT job_id FROM there)
        WHERE pool = of_pool AND id = of_id RETURNING id
    ) SELECT job_id FROM there, noted
$$;
REVOKE EXECUTE ON FUNCTION assignment_note_donors FROM PUBLIC;

-- Why the latent of a job must stay; NULL: it need not.  Volatile: where it is asked behind a lock
-- on the latent, it sees what was committed before the lock was granted.
CREATE FUNCTION latent_need(of_job bigint) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT CASE
        WHEN EXISTS (SELECT FROM assignment a WHERE of_job = ANY (a.donors))
            OR EXISTS (SELECT FROM job j WHERE j.init_job = of_job AND j.init_job <> 0
                AND j.state IN (0, 1))
            THEN 'in use'
        WHEN EXISTS (SELECT FROM latent l JOIN job j ON j.id = l.job_id JOIN image i
                ON i.prompt_hash = l.prompt_hash AND i.pool = j.pool AND i.width = l.width
                AND i.height = l.height AND i.model = l.model AND i.lora_set = l.lora_set
                JOIN favourite f ON f.job_id = i.job_id WHERE l.job_id = of_job)
            THEN 'favourite'
        END
$$;

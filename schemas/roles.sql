-- roles.sql - what each part of Kiln may do in the ledger.  `kiln migrate --roles` makes the roles;
-- every `kiln migrate` after that runs this file again, so that new tables are covered.
--
--   kiln_scheduler  moves jobs, takes them in, keeps the accounts; never removes a job or a picture
--   kiln_worker     commits the pictures of jobs assigned to it, and hands jobs back; removes nothing
--   kiln_operator   what the command kiln does to rows: cancel, retry, rm, gc, favourite
--   kiln_reader     reads; the sessions for people's questions become it where their user may, as
--                   kiln_operator may after `kiln migrate --roles`
--   kiln_gallery    what `kiln gallery` does: reads, keeps the tables of the gallery in step, stars
--                   pictures and votes on them, records levels of safety, cancels batches; removes no
--                   picture
--
-- None may change the schema.  A role that does not exist is passed over; all of them keep what an
-- administrator has granted beyond this only until the next run.

DO $$
DECLARE
    here text := quote_ident(current_schema());
    role text;
BEGIN
    FOR role IN SELECT rolname FROM pg_roles
        WHERE rolname IN ('kiln_scheduler', 'kiln_worker', 'kiln_operator', 'kiln_reader',
            'kiln_gallery')
    LOOP
        EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), role);
        EXECUTE format('GRANT USAGE ON SCHEMA %s TO %I', here, role);
        EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA %s FROM %I', here, role);
        EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA %s FROM %I', here, role);
        IF role <> 'kiln_worker' THEN
            EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA %s TO %I', here, role);
            EXECUTE format('GRANT SELECT ON ALL SEQUENCES IN SCHEMA %s TO %I', here, role);
        END IF;
    END LOOP;

    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'kiln_scheduler') THEN
        EXECUTE format('GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %s TO kiln_scheduler', here);
        REVOKE INSERT, UPDATE, DELETE ON schema_migrations, image, object, latent, favourite,
            usage_removed, removed_job, image_change, latent_gone, gallery_text, gallery_day, gallery_word,
            gallery_state, gallery_vector, gallery_picture, safety_verdict, safety_rule, vote
            FROM kiln_scheduler;
        REVOKE DELETE ON job, batch, lora, lora_file, lora_registry FROM kiln_scheduler;
        GRANT EXECUTE ON FUNCTION assignment_note_donors TO kiln_scheduler;
    END IF;

    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'kiln_worker') THEN
        GRANT SELECT ON schema_migrations TO kiln_worker;
        GRANT SELECT, UPDATE (state, worker, finished_at, not_before, error_code, error, tries, crashes)
            ON job TO kiln_worker;
        GRANT SELECT, INSERT, UPDATE ON batch_tally, worker TO kiln_worker;
        GRANT INSERT ON event, image, object, latent TO kiln_worker;
        GRANT SELECT ON object, latent TO kiln_worker; -- where a run starts
    END IF;

    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'kiln_operator') THEN
        EXECUTE format('GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %s TO kiln_operator', here);
        REVOKE INSERT, UPDATE, DELETE ON schema_migrations FROM kiln_operator;
    END IF;

    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'kiln_gallery') THEN
        GRANT INSERT, UPDATE, DELETE ON gallery_text, gallery_day, gallery_word, gallery_state,
            gallery_vector, gallery_picture, safety_rule, vote TO kiln_gallery;
        GRANT DELETE ON image_change TO kiln_gallery;
        GRANT INSERT, DELETE ON favourite TO kiln_gallery;
        GRANT INSERT ON safety_verdict TO kiln_gallery;
        GRANT UPDATE (safety_score, safety_flag, safety_source) ON image TO kiln_gallery;
        GRANT UPDATE (state, finished_at) ON job TO kiln_gallery;
        GRANT INSERT ON event TO kiln_gallery;
        GRANT INSERT, UPDATE ON batch_tally TO kiln_gallery;
    END IF;
END $$;

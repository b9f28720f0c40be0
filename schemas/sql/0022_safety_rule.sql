-- 0022_safety_rule.sql - who has looked at which picture, for levels of safety; and votes.

-- How far the rule about prompts has looked at pictures that were there before it: it goes down from
-- the newest job.  The pictures made since then are looked at as they come.
CREATE TABLE safety_rule (
    source text COLLATE "C" PRIMARY KEY,       -- as in safety_verdict: "rule:1"
    below  bigint NOT NULL                     -- pictures of jobs below this one are left; 0: none
);

-- The opinions of people, newest first.
CREATE INDEX safety_verdict_person ON safety_verdict (id) WHERE rank = 2;

-- What somebody thinks of a picture: better or worse than others.  It belongs to the picture, as a
-- star does, and goes with it.
CREATE TABLE vote (
    job_id bigint PRIMARY KEY REFERENCES image (job_id) ON DELETE CASCADE,
    value  smallint NOT NULL CHECK (value IN (-1, 1)),
    at     timestamptz NOT NULL DEFAULT now()
);
CREATE TRIGGER vote_comes AFTER INSERT ON vote REFERENCING NEW TABLE AS touched
    FOR EACH STATEMENT EXECUTE FUNCTION image_note_change();
CREATE TRIGGER vote_changes AFTER UPDATE ON vote REFERENCING NEW TABLE AS touched
    FOR EACH STATEMENT EXECUTE FUNCTION image_note_change();
CREATE TRIGGER vote_goes AFTER DELETE ON vote REFERENCING OLD TABLE AS touched
    FOR EACH STATEMENT EXECUTE FUNCTION image_note_change();

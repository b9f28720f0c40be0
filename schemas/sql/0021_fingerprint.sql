-- 0021_fingerprint.sql - which file a row of gallery_picture was computed from.
--
-- A job whose picture was removed and rendered again may have another file, and equal files are the
-- first relation between pictures that a gallery shows.  An index on object.sha256 would cost every
-- commit of a worker; this one is written by the gallery's background thread.
--
-- low_pass and thumb stay empty, and are not dropped, so that older programs can work beside this:
-- means of the final latent find no more than the prompt's vector and PDQ do
-- (scripts/bench/RESULTS.md), and a mean colour is enough for a placeholder.
ALTER TABLE gallery_picture
    ADD COLUMN file bigint;                   -- hashtextextended of sha256 of the full picture
CREATE INDEX gallery_picture_file ON gallery_picture (file);

-- 0043_gallery_sketch.sql - no sketches of new vectors: a gallery makes them from the vectors, in a
-- few microseconds each, and 24 bytes say more than the 64 stored ones (pipeline/embed/index).
-- Older galleries still read and write the column; they pass over vectors without a sketch.
ALTER TABLE gallery_vector ALTER COLUMN sketch SET DEFAULT '';

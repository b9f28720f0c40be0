-- 0042_gallery_words.sql - the words of new pictures go into their index 170 pictures at a time.
--
-- One by one, each word of each picture is looked up and its list packed anew: 0.56 ms a picture
-- on an Intel Xeon VM, 0.28 through this list of new ones.  Each window of a search also reads that
-- list: 0.25 ms when it is half full.  The insert that fills it writes it into the index.  Searches
-- under way end before the change, and new ones wait for it, a moment.
ALTER INDEX gallery_text_words SET (fastupdate = on, gin_pending_list_limit = 256);

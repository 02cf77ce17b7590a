-- Until when processes may return permits of the window that they did not use, by the database's clock.
alter table rate_windows add column returns_by_ms bigint not null default 0;

-- Every request may be a write here, and none is worth a wait for the disk: after a crash of the database
-- windows start anew.
alter table rate_windows set unlogged;

-- How far started_at may be off the platform's clock, at most; null where nobody knows.
alter table results add column clock_uncertainty_ms real;

-- Since when the agent has been live without a break, as this instance of it: a slot since then that
-- nobody reported was not lost with an agent.
alter table agents add column live_since timestamptz(3) not null default clock_timestamp();

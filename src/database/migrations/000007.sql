-- What agents say of their own network while it does not work, and whether the owners of a location know.

alter table agents
  add column network_problem text check (length(network_problem) between 1 and 64),
  -- Since when this agent says so.
  add column network_problem_since timestamptz(3),
  add check ((network_problem is null) = (network_problem_since is null));
create index agents_without_network on agents (network_problem_since)
  where network_problem is not null;
alter table private_locations add column network_problem_told_at timestamptz(3);

-- Delivery of notifications: one that fails holds newer ones of its topic for a while only, answers that
-- refuse it are counted, and a failure may be merged into the recovery that waits behind it.

alter table alert_notifications
  -- Until then newer ones of the topic wait; null before the first attempt, and they wait too.
  add column held_until timestamptz(3),
  -- While an attempt is under way: when it is over at the latest.
  add column leased_until timestamptz(3),
  -- Answers by which the receiver refused it, such as 400.
  add column refusals smallint not null default 0,
  -- When it happened, by the platform's clock: what is sent long after says that it is late.
  add column happened_at timestamptz(3),
  -- The alert of the monitor that it belongs to.
  add column alert_since text generated always as (payload #>> '{alert,since}') stored,
  drop constraint alert_notifications_state_check,
  add constraint alert_notifications_state_check
    check (state in ('waiting', 'sent', 'failed', 'merged'));
update alert_notifications set happened_at = created_at,
  held_until = case when attempts > 0 then created_at end
where state = 'waiting';

-- The slot with which the last alert of a monitor ended, kept beyond its row in alert_states: other
-- locations may deliver the same past later.
create table alert_ends (
  monitor_id uuid primary key references monitors (id) on delete cascade,
  slot_ms bigint not null
);
update alert_states set state = state || '{"endedSlot": null}';

-- Slots whose agents say that they still run them: few, and looked at by every sweep.

create index results_under_way on results (received_at) where missed_reason = 'under-way';

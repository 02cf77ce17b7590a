// SQL expressions that write rows as the JSON text of the public contract, so that PostgreSQL makes an
// answer's text without being parsed.

/** A day in UTC, as JSON text. */
export function dayJson(column: string): string {
  return `'"' || to_char(${column} at time zone 'UTC', 'YYYY-MM-DD') || '"'`
}

/** A day in UTC or null, as JSON text. */
export function dayOrNullJson(column: string): string {
  return `coalesce(${dayJson(column)}, 'null')`
}

/** An instant in UTC with milliseconds, as JSON text; null stays null. */
export function instantJson(column: string): string {
  return `'"' || to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || '"'`
}

/** A text, as JSON text. */
export function textJson(column: string): string {
  return `to_json(${column})::text`
}

/** A service from the row `s`. */
export function serviceJson(s: string): string {
  return `'{"name":' || ${textJson(`${s}.name`)} || ',"id":"' || ${s}.id
    || '","accountId":"' || ${s}.account_id || '","created_at":' || ${dayJson(`${s}.created_at`)}
    || ',"updated_at":' || ${dayOrNullJson(`${s}.updated_at`)} || '}'`
}

/** An incident update from the row `u`. */
export function updateJson(u: string): string {
  return `'{"description":' || ${textJson(`${u}.description`)}
    || coalesce(',"status":"' || ${u}.status || '"', '')
    || ',"publicIncidentUpdateDate":"'
    || to_char(${u}.public_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    || '","notifySubscribers":' || ${u}.notify_subscribers || ',"id":"' || ${u}.id
    || '","created_at":' || ${dayJson(`${u}.created_at`)} || '}'`
}

/** An incident from the row `i`, with its services and the latest `updatesMax` updates. */
export function incidentJson(i: string, updatesMax: number): string {
  return `'{"name":' || ${textJson(`${i}.name`)} || ',"severity":"' || ${i}.severity
    || '","id":"' || ${i}.id || '","services":[' || coalesce((
      select string_agg(${serviceJson('s')}, ',' order by link.position)
      from incident_services link join services s on s.id = link.service_id
      where link.incident_id = ${i}.id), '')
    || '],"incidentUpdates":[' || coalesce((
      select string_agg(${updateJson('u')}, ',' order by u.public_at desc, u.seq desc)
      from (select * from incident_updates one where one.incident_id = ${i}.id
        order by one.public_at desc, one.seq desc limit ${updatesMax}) u), '')
    || '],"lastUpdateStatus":"' || ${i}.last_update_status
    || '","duration":' || coalesce(${i}.duration_s::text, 'null')
    || ',"created_at":' || ${dayJson(`${i}.created_at`)}
    || ',"updated_at":' || ${dayJson(`${i}.updated_at`)} || '}'`
}

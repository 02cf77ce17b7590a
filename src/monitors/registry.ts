// The one table of monitor types. A new type is its file, one line here, and its test.
import { api } from './api.ts'
import type { AnyMonitorType } from './monitor.ts'
import { ssl } from './ssl.ts'
import { tcp } from './tcp.ts'
import { url } from './url.ts'

/** Every type of monitor that this code can run, by checkType. */
export const MONITOR_TYPES: ReadonlyMap<string, AnyMonitorType> = new Map(
  [url, api, tcp, ssl].map((type) => [type.checkType, type]),
)

// Registry of the monitor types that this code can run; their definitions are in definitions.ts.
import { api } from './api/index.ts'
import { browser } from './browser/index.ts'
import { dns } from './dns/index.ts'
import { grpc } from './grpc/index.ts'
import { icmp } from './icmp/index.ts'
import type { AnyMonitorType } from './monitor.ts'
import { multistep } from './multistep/index.ts'
import { ssl } from './ssl/index.ts'
import { suite } from './suite/index.ts'
import { tcp } from './tcp/index.ts'
import { traceroute } from './traceroute/index.ts'
import { url } from './url/index.ts'
import { websocket } from './websocket/index.ts'

/** Every type of monitor that this code can run, by checkType. */
export const MONITOR_TYPES: ReadonlyMap<string, AnyMonitorType> = new Map(
  [url, api, tcp, dns, grpc, icmp, traceroute, ssl, browser, multistep, suite, websocket].map(
    (type) => [type.checkType, type],
  ),
)

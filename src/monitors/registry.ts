// The one table of monitor types. A new type is its file, one line here, and its test.
import { api } from './api.ts'
import { browser } from './browser.ts'
import { dns } from './dns.ts'
import { grpc } from './grpc.ts'
import { icmp } from './icmp.ts'
import type { AnyMonitorType } from './monitor.ts'
import { multistep } from './multistep.ts'
import { ssl } from './ssl.ts'
import { suite } from './suite.ts'
import { tcp } from './tcp.ts'
import { traceroute } from './traceroute.ts'
import { url } from './url.ts'

/** Every type of monitor that this code can run, by checkType. */
export const MONITOR_TYPES: ReadonlyMap<string, AnyMonitorType> = new Map(
  [url, api, tcp, dns, grpc, icmp, traceroute, ssl, browser, multistep, suite].map((type) => [
    type.checkType,
    type,
  ]),
)

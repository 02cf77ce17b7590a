// Observation of the scripts of an API monitor, as results report it.
import type { SandboxUsage } from '../../sandbox/request.ts'
import type { RefusedConnection } from '../../sandbox/egress/egress.ts'
import type { ConsoleLine } from '../console.ts'

/** A script that ran. */
export interface ApiScriptObserved {
  durationMs: number
  error?: string
}

/** What the scripts of one attempt did. */
export interface ApiScriptsObserved {
  runtime: string
  setUp?: ApiScriptObserved
  tearDown?: ApiScriptObserved
  console: ConsoleLine[]
  consoleLeftOut?: number
  notes?: string[]
  /** Connections that the network policy forbids, and those that failed in the run's proxy, where it has one. */
  refused?: RefusedConnection[]
  usage?: Pick<SandboxUsage, 'cpuMs' | 'peakMemoryBytes' | 'processesMax'>
}

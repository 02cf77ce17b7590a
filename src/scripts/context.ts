// What is lent to one run of user code: scripts, and whole suites.
import type { Dialler } from '../network/dial.ts'
import type { RunProgress, ScriptHost } from './host.ts'
import type { HeaderHearing } from './playwright/seen-headers.ts'

/** What the runner lends to a run of user code. */
export interface ScriptContext {
  /** Aborted when time is up or the run is cancelled; `isDeadline(signal)` tells which. */
  signal: AbortSignal
  /** The only way out to the network: it holds the network policy, the resolver and the proxy. */
  dial: Dialler
  /** A folder for this attempt alone, made at first use and removed afterwards. */
  workFolder(): Promise<string>
  /** Hands over a file of the work folder as an artifact of the result; it must be whole when the run ends. */
  attach(path: string): void
  /** What user code stands on; absent where this agent runs none. */
  scripts?: ScriptHost | undefined
  /** Variables of account, group and monitor, for the environment of user code. */
  variables?: Readonly<Record<string, string>>
  /** The definition before variables were put in, for who puts them in later. */
  written?: Readonly<Record<string, unknown>>
  /** Name of the location. */
  location?: string
  /** Takes the run's secrets out of a text that is to become part of a name. */
  withoutSecrets?: (text: string) => string
  /** Hears what sensitive headers held that user code sent or got; absent where nobody asks. */
  headers?: HeaderHearing
  /** Whose monitor it is, where a platform says so. */
  accountId?: string
  source?: RunSource
  /** Tells how far the run is; the newest word counts. */
  progress?(at: RunProgress): void
}

/** Why a run runs, in the words of the public contract: the timetable, somebody's asking, a trial. */
export type RunSource = 'SCHEDULER' | 'TRIGGER_API' | 'TEST_NO_RECORD'

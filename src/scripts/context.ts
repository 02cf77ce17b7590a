// Context of one run of user code, a script or a whole suite, and the environment that it makes: the variables of the
// public contract, and facts about the monitor itself.
import type { Dialler } from '../network/dial.ts'
import type { RunProgress, ScriptHost } from './host.ts'
import type { HeaderListener } from './playwright/observed-headers.ts'

export interface ScriptContext {
  /** Aborted when time is up or the run is cancelled; `isDeadline(signal)` says which. */
  signal: AbortSignal
  /** Dialler for all connections: applies the network policy, the resolver and the proxy. */
  dial: Dialler
  /** A folder for this attempt alone, made at first use and removed afterwards. */
  workFolder(): Promise<string>
  /** Hands over a file of the work folder as an artifact of the result; it must be whole when the run ends. */
  attach(path: string): void
  /** Host of user code; absent where this agent runs none. */
  scripts?: ScriptHost | undefined
  /** Variables of account, group and monitor, for the environment of user code. */
  variables?: Readonly<Record<string, string>>
  /** The definition before variables were put in, for monitors that put them in later. */
  written?: Readonly<Record<string, unknown>>
  /** Name of the location. */
  location?: string
  /** Takes the run's secrets out of a text that is to become part of a name. */
  withoutSecrets?: (text: string) => string
  /** Receives the values of sensitive headers that user code sent or got; absent where they are not watched. */
  headers?: HeaderListener
  accountId?: string
  source?: RunSource
  /** Reports how far the run is; the newest report counts. */
  progress?(at: RunProgress): void
}

/** Why a run runs, as the public contract says it: the timetable, a request, a trial. */
export type RunSource = 'SCHEDULER' | 'TRIGGER_API' | 'TEST_NO_RECORD'

/** What of a monitor the environment names. */
export interface NamedMonitor {
  id: string
  name: string
  checkType: string
}

type EnvironmentContext = Pick<ScriptContext, 'variables' | 'location' | 'accountId' | 'source'>

/** Names that decide on how the script is sandboxed; they are reserved. */
const OURS = /^(?:VEDETTE_|PLAYWRIGHT_BROWSERS_PATH$|PW_TEST_REPORTER$|NODE_OPTIONS$|LD_PRELOAD$)/

export function scriptEnvironment(
  { id, name, checkType }: NamedMonitor,
  { variables = {}, location = '', accountId, source = 'SCHEDULER' }: EnvironmentContext,
): Record<string, string> {
  const own = Object.entries(variables).filter(([key]) => !OURS.test(key))
  return {
    CHECKLY: '1',
    CHECKLY_RUN_SOURCE: source,
    ...(accountId === undefined ? {} : { ACCOUNT_ID: accountId }),
    // Outside of a pipeline, a suite must not assume that it runs in CI.
    ...(source === 'TEST_NO_RECORD' ? { CI: '1' } : {}),
    CHECKLY_CHECK_ID: id,
    CHECKLY_REGION: location,
    CHECK_ID: id,
    CHECK_NAME: name,
    CHECK_TYPE: checkType,
    REGION: location,
    ...Object.fromEntries(own),
  }
}

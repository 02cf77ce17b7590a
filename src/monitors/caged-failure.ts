// What the end of a run in the cage means for the monitor, when the code itself did not get to its end.
import { failure, type Failure, type FailureCode } from '../contract/failure.ts'
import type { CagedEnd } from './cage.ts'
import type { CagedOutcome, CageLimits } from './cage-order.ts'

const CODES: Partial<Record<CagedOutcome, readonly [code: FailureCode, words: string]>> = {
  'out-of-time': ['TIMEOUT_RUN', 'time ran out'],
  'out-of-cpu': ['RUN_OUT_OF_CPU', 'it used more processor time than it may'],
  'out-of-memory': ['RUN_OUT_OF_MEMORY', 'it used more memory than it may'],
  'out-of-disk': ['RUN_OUT_OF_DISK', 'it wrote more to its folder than it may'],
  'out-of-output': ['RUN_OUT_OF_OUTPUT', 'it wrote more to its output than it may'],
  'too-many-processes': ['RUN_OUT_OF_PROCESSES', 'it had more processes at a time than it may'],
  signalled: ['RUN_CRASHED', 'it was ended by a signal'],
  'cage-failed': ['CAGE_FAILED', 'it could not be run as it must be'],
}

const MEBIBYTE = 1_048_576

/** How much it may, for those who wonder. */
const BOUNDS: Partial<Record<CagedOutcome, (limits: CageLimits) => string>> = {
  'out-of-time': ({ wallMs }) => `${wallMs / 1000} s`,
  'out-of-cpu': ({ cpuMs }) => `${cpuMs / 1000} s`,
  'out-of-memory': ({ memoryBytes }) => `${Math.round(memoryBytes / MEBIBYTE)} MiB`,
  'out-of-disk': ({ diskBytes }) => `${Math.round(diskBytes / MEBIBYTE)} MiB`,
  'out-of-output': ({ outputBytes }) => `${Math.round(outputBytes / MEBIBYTE)} MiB`,
  'too-many-processes': ({ processes }) => `${processes}`,
}

/**
 * The failure of a run that was ended, or ended by a crash; undefined where it exited, or somebody cancelled
 * it. `what` begins the message: `the installation`.
 */
export function cagedFailure(end: CagedEnd, what: string): Failure | undefined {
  const found = CODES[end.outcome]
  if (found === undefined) return undefined
  const [code, words] = found
  const { signal, problem, usage, limits } = end
  const bound = limits && BOUNDS[end.outcome]?.(limits)
  const most = bound === undefined ? '' : `at most ${bound}`
  const more = problem ?? (end.outcome === 'signalled' ? (signal ?? '') : most)
  const message = `${what}: ${words}${more === '' ? '' : ` (${more})`}`
  return failure(code, message, { usage })
}

// Failures for runs that the sandbox ended: the limit with its unit, the usage, and what raises the limit. No limit has
// its own variable; only memory yields to a setting, where it is the container's or the heap of an engine.
import { failure, type Failure, type FailureCode } from '../contract/failure.ts'
import { bytesText, durationText } from '../contract/schema/amounts.ts'
import type { SandboxOutcome, SandboxLimits, SandboxEnd } from './request.ts'

interface Meaning {
  code: FailureCode
  limit?: keyof SandboxLimits
  /** The message, which contains `what`. */
  messageFor: (end: SandboxEnd, what: string, heapSetting?: string) => string
}

const MEANINGS: Partial<Record<SandboxOutcome, Meaning>> = {
  'out-of-time': {
    code: 'TIMEOUT_RUN',
    limit: 'wallMs',
    messageFor: ({ limits }, what) => lateMessage(what, limits.wallMs),
  },
  'out-of-cpu': {
    code: 'RUN_OUT_OF_CPU',
    limit: 'cpuMs',
    messageFor: ({ usage, limits }, what) =>
      `${what} used ${durationText(usage.cpuMs)} of processor time: the limit is ${durationText(limits.cpuMs)}`,
  },
  'out-of-memory': { code: 'RUN_OUT_OF_MEMORY', limit: 'memoryBytes', messageFor: memoryMessage },
  'out-of-disk': { code: 'RUN_OUT_OF_DISK', limit: 'diskBytes', messageFor: diskMessage },
  'out-of-output': {
    code: 'RUN_OUT_OF_OUTPUT',
    limit: 'outputBytes',
    messageFor: ({ outputBytes, limits }, what) =>
      `${what} wrote ${bytesText(outputBytes, 'up')} of output: the limit is ${bytesText(limits.outputBytes)}`,
  },
  'too-many-processes': {
    code: 'RUN_OUT_OF_PROCESSES',
    limit: 'processes',
    messageFor: ({ limits }, what) =>
      `${what} started processes beyond the limit of ${limits.processes} at a time`,
  },
  signalled: {
    code: 'RUN_CRASHED',
    messageFor: ({ signal }, what) => `a signal ended ${what} (${signal})`,
  },
  'sandbox-failed': {
    code: 'SANDBOX_FAILED',
    messageFor: ({ problem }, what) => `${what} could not be sandboxed: ${problem}`,
  },
}

/**
 * The failure of a run that the sandbox ended, or a crash. `what` stands in the message: `the installation`;
 * `heapSetting` is the setting of the monitor that gives the engine more heap, if there is one.
 */
export function sandboxFailure(
  end: SandboxEnd,
  what: string,
  heapSetting?: string,
): Failure | undefined {
  if (end.fault !== undefined) return ownFailure(end.fault)
  const meaning = MEANINGS[end.outcome]
  if (meaning === undefined) return undefined
  const { code, limit, messageFor } = meaning
  const { usage, limits } = end
  const passed = limit === undefined ? {} : { limit: { [limit]: limits[limit] } }
  return failure(code, messageFor(end, what, heapSetting), { usage, ...passed })
}

/** Enough to find the place, without filling results. */
const STACK_CHARS_MAX = 2000

function ownFailure({ name, message, stack = '' }: Error): Failure {
  return failure('INTERNAL', `${name}: ${message}`, { stack: stack.slice(0, STACK_CHARS_MAX) })
}

/** The message for an exceeded time limit. */
export function lateMessage(what: string, limitMs: number): string {
  return `${what} took longer than the limit of ${durationText(limitMs)}`
}

function memoryMessage(end: SandboxEnd, what: string, heapSetting?: string): string {
  const { usage, limits, scarce } = end
  const used = bytesText(usage.peakMemoryBytes, 'up')
  const limit = bytesText(limits.memoryBytes)
  if (scarce === 'heap') {
    const fix = heapSetting === undefined ? '' : `; ${heapSetting} gives it more heap`
    // It may have ended before anybody had looked at what it used.
    const known = usage.peakMemoryBytes === 0 ? '' : `, and used ${used} of memory`
    return `${what} filled the heap of its engine${known}: the limit of all is ${limit}${fix}`
  }
  if (scarce === 'container') {
    const fix = 'give it more, or run fewer at a time (JOB_CONCURRENCY)'
    return `${what} used ${used} of memory when the agent’s container had none left: the limit is ${limit}; ${fix}`
  }
  const wanted = end.memoryBytesWanted
  const ofContainer =
    wanted === undefined
      ? ''
      : `, limited by the memory of the agent’s container; more memory raises it, up to ${bytesText(wanted)}`
  return `${what} used ${used} of memory: the limit is ${limit}${ofContainer}`
}

function diskMessage({ usage, limits, signal }: SandboxEnd, what: string): string {
  if (signal === 'SIGXFSZ' && usage.diskBytes <= limits.diskBytes) {
    return `${what} wrote a file beyond the limit for one, ${bytesText(limits.fileBytes)}`
  }
  const used = bytesText(usage.diskBytes, 'up')
  return `${what} used ${used} on disk: the limit is ${bytesText(limits.diskBytes)}`
}

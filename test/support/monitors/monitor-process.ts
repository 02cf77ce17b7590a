// Runs monitors in a separate process: in another network, as another user, or with fewer privileges than the
// test.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Observation } from '../../../src/contract/observation.ts'

/** What ends a run early. */
export interface RunOptions {
  /** The deadline that the runner would set; the monitor's own without it. */
  deadlineMs?: number
  /** Cancels the run after this time. */
  cancelMs?: number
  blocked?: string[]
}

/** The outcome of a run. */
export interface Ran {
  /** Undefined when the run rejected. */
  observation?: Observation
  rejected?: string
  tookMs: number
  /** From the abort to the end, for an aborted run. */
  overrunMs?: number
}

export interface MonitorProcess extends AsyncDisposable {
  readonly pid: number
  /** Runs the definition; runs may be concurrent. */
  run(definition: Record<string, unknown>, options?: RunOptions): Promise<Ran>
  /**
   * Listens in the network of the process; resolves with the port. A UDP port echoes; SCTP gives only the first
   * answer.
   */
  listen(protocol: 'tcp' | 'udp' | 'sctp', host: string, port?: number): Promise<number>
  /** Open descriptors of the process. */
  descriptors(): Promise<number>
}

const child = new URL('monitor-child.ts', import.meta.url).pathname

/** Starts it behind the prefix, as `ip netns exec <name>` or `setpriv …`. */
export async function startMonitorProcess(prefix: readonly string[] = []): Promise<MonitorProcess> {
  const [program, ...args] = [...prefix, process.execPath, child]
  const started = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const waiting = new Map<number, (answer: unknown) => void>()
  let asked = 0
  createInterface({ input: started.stdout }).on('line', (line) => {
    const { id, answer } = JSON.parse(line) as { id: number; answer: unknown }
    waiting.get(id)?.(answer)
    waiting.delete(id)
  })
  const ended = once(started, 'exit')
  const ask = <T>(question: Record<string, unknown>): Promise<T> => {
    const id = asked++
    started.stdin.write(`${JSON.stringify({ id, ...question })}\n`)
    return new Promise((resolve, reject) => {
      waiting.set(id, resolve as (answer: unknown) => void)
      void ended.then(() => reject(new Error(`the process ended: ${started.exitCode}`)))
    })
  }
  return {
    pid: started.pid as number,
    run: (definition, options = {}) => ask({ what: 'run', definition, options }),
    listen: (protocol, host, port = 0) => ask({ what: 'listen', protocol, host, port }),
    descriptors: () => ask({ what: 'descriptors' }),
    async [Symbol.asyncDispose]() {
      started.stdin.end()
      await ended
    },
  }
}

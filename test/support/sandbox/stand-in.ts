// Starts the stand-in agent (stand-in-agent.ts) as root or as nobody, and finds the leftovers of its runs.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { SandboxLimits, SandboxEnd } from '../../../src/sandbox/request.ts'
import { AS_NOBODY } from '../as-nobody.ts'
import { IN_REACH } from '../in-reach.ts'

/** One run to be sandboxed. `{folder}` in arguments is the run's folder. */
export interface StandInRequest {
  id: number
  command: string
  args: string[]
  readable?: string[]
  limits?: Partial<SandboxLimits>
  /** Cancels the run when its output contains this. */
  stopAt?: string
  /** Whether output is reported as it arrives. */
  echo?: boolean
}

export interface StandInFacts {
  pid: number
  dataFolder: string
  root: string
}

/** The end of a run. */
export interface StandInAnswer {
  end: SandboxEnd
  tookMs: number
  folder: string
}

/** The stand-in, running. */
export interface StandIn {
  facts: StandInFacts
  run(request: Omit<StandInRequest, 'id'>, onOutput?: () => void): Promise<StandInAnswer>
  /** Kills it as the system would. */
  kill(): Promise<void>
}

/** Part of every planted secret. */
export const PLANTED = 'planted-secret'
/** Docker's default capabilities of a container's root. */
const CONTAINER =
  'chown dac_override fsetid fowner mknod net_raw setgid setuid setfcap setpcap net_bind_service ' +
  'sys_chroot kill audit_write'

const isRoot = process.getuid?.() === 0
/** With the filter of system calls that containers have. */
const IN_DOCKER = [process.execPath, fileURLToPath(new URL('./as-in-docker.ts', import.meta.url))]

const PREFIXES = {
  root: [],
  'root of a container': [
    ...IN_REACH,
    'setpriv',
    '--inh-caps=-all',
    `--bounding-set=-all,+${CONTAINER.replaceAll(' ', ',+')}`,
    ...IN_DOCKER,
  ],
  // An unprivileged user of the tests stands in for nobody.
  'nobody in a container': [...(isRoot ? AS_NOBODY : []), ...IN_DOCKER],
} as const

export type StandInRights = keyof typeof PREFIXES

const PROGRAM = fileURLToPath(new URL('./stand-in-agent.ts', import.meta.url))

/** Why it cannot be started with those rights here, or undefined. */
export function missingFor(as: StandInRights): string | undefined {
  return isRoot || as === 'nobody in a container' ? undefined : 'needs root, to be another user'
}

/** Starts the stand-in below the folder, with the rights of a machine's root, a container's root, or none. */
export async function startStandIn(root: string, as: StandInRights): Promise<StandIn> {
  const [command = '', ...args] = [...PREFIXES[as], process.execPath, PROGRAM, root]
  const child = spawn(command, args, {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, PLANTED_SECRET: PLANTED },
  })
  const waiting = new Map<number, (said: StandInMessage) => void>()
  const ready = Promise.withResolvers<StandInFacts>()
  createInterface({ input: child.stdout }).on('line', (line) => {
    const said = JSON.parse(line) as StandInMessage & { facts?: StandInFacts; fault?: string }
    if (said.facts !== undefined) ready.resolve(said.facts)
    else if (said.fault !== undefined) throw new Error(said.fault)
    else waiting.get(said.id)?.(said)
  })
  const exited = once(child, 'exit')
  void exited.then(() => ready.reject(new Error('the stand-in ended')))
  let id = 0
  return {
    facts: await ready.promise,
    run(request, onOutput) {
      const own = ++id
      return new Promise((resolve) => {
        waiting.set(own, (said) => {
          if (said.end !== undefined) resolve(said as StandInAnswer)
          else onOutput?.()
        })
        child.stdin.write(`${JSON.stringify({ ...request, id: own })}\n`)
      })
    },
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
  }
}

type StandInMessage = Partial<StandInAnswer> & { id: number }

/** Processes with the text in their environment or command line, by number and command line. */
export function processesWith(text: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .map((pid) => ({ pid, commandLine: of(pid, 'cmdline'), environment: of(pid, 'environ') }))
    .filter(
      ({ commandLine, environment }) => commandLine.includes(text) || environment.includes(text),
    )
    .map(({ pid, commandLine }) => `${pid} ${commandLine.replaceAll('\0', ' ')}`)
}

function of(pid: string, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'latin1')
  } catch {
    return ''
  }
}

/** The nearest process above that runs this program. */
export function parentWithCommand(pid: number, program: string): number {
  for (let at = pid; at > 1;) {
    if (readFileSync(`/proc/${at}/cmdline`, 'latin1').includes(program)) return at
    at = Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${at}/status`, 'latin1'))?.[1])
  }
  throw new Error(`nobody above runs ${program}`)
}

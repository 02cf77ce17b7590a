// Whether this agent's own network works: results say first that it does not, then the agent looks for itself
// until it does. One warning and one line when it is over, however many monitors are errored meanwhile.
import { NETWORK_PROBLEMS, type NetworkProblem } from '../contract/failure.ts'
import type { Result } from '../contract/result.ts'
import type { Log } from '../process/log.ts'
import { systemNameServers } from '../network/dns/name-servers.ts'
import { isCutOff } from '../network/own-network.ts'

export interface NetworkState {
  /** Observes a result. */
  saw(result: Pick<Result, 'failures'>): void
  problem(): NetworkProblem | undefined
  /** For readiness: at most one sentence. */
  warnings(): string[]
  /** For `/health`; null while the network works. */
  facts(): { problem: NetworkProblem; since: string } | null
  /** Looks no more. */
  stop(): void
}

/** Whether the problem is there, or another one; an answer since `sinceMs` (performance.now()) speaks against it. */
export type LookAtNetwork = (
  problem: NetworkProblem,
  sinceMs: number,
) => Promise<NetworkProblem | undefined>

const LOOK_EVERY_MS = 5000

const MESSAGES: Readonly<Record<NetworkProblem, string>> = {
  RESOLVER_UNREACHABLE: 'none of the name servers of this agent’s system answers',
  NETWORK_UNREACHABLE: 'this agent’s machine has no network',
}

/** Starts with a network that works; `onChange` is called when `problem()` has changed. */
export function createNetworkState(
  log: Log,
  onChange: () => void,
  look: LookAtNetwork = lookAtNetwork,
): NetworkState {
  return new LookedAtNetwork(log, onChange, look)
}

class LookedAtNetwork implements NetworkState {
  readonly #log: Log
  readonly #onChange: () => void
  readonly #lookAt: LookAtNetwork
  #standing: { problem: NetworkProblem; since: Date; sinceMs: number } | undefined
  #isLooking = false
  #isStopped = false
  #timer: NodeJS.Timeout | undefined

  constructor(log: Log, onChange: () => void, look: LookAtNetwork) {
    this.#log = log
    this.#onChange = onChange
    this.#lookAt = look
  }

  saw({ failures }: Pick<Result, 'failures'>): void {
    const problem = NETWORK_PROBLEMS.find((one) => failures.some(({ code }) => code === one))
    if (problem === undefined || this.#isLooking || this.#standing !== undefined) return
    // A result may speak of a moment that is over.
    void this.#look(problem, performance.now())
  }

  problem(): NetworkProblem | undefined {
    return this.#standing?.problem
  }

  warnings(): string[] {
    if (this.#standing === undefined) return []
    const { problem, since } = this.#standing
    return [`${MESSAGES[problem]} (${problem}) since ${since.toISOString()}: monitors are errored`]
  }

  facts(): { problem: NetworkProblem; since: string } | null {
    if (this.#standing === undefined) return null
    const { problem, since } = this.#standing
    return { problem, since: since.toISOString() }
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }

  async #look(problem: NetworkProblem, sinceMs: number): Promise<void> {
    this.#isLooking = true
    const startedMs = performance.now()
    const found = await this.#lookAt(problem, sinceMs)
    this.#isLooking = false
    if (this.#isStopped) return
    this.#set(found)
    if (found === undefined) return
    this.#timer = setTimeout(() => void this.#look(found, startedMs), LOOK_EVERY_MS)
    this.#timer.unref()
  }

  #set(problem: NetworkProblem | undefined): void {
    const before = this.#standing
    if (before?.problem === problem) return
    if (problem === undefined) {
      const seconds = Math.round((performance.now() - (before?.sinceMs ?? 0)) / 1000)
      this.#standing = undefined
      this.#log.info({ seconds }, 'this agent’s own network works again')
    } else {
      const since = before ?? { since: new Date(), sinceMs: performance.now() }
      this.#standing = { ...since, problem }
      if (before === undefined)
        this.#log.warn({ problem }, `${MESSAGES[problem]}: monitors are errored`)
    }
    this.#onChange()
  }
}

const never = new AbortController().signal

async function lookAtNetwork(
  problem: NetworkProblem,
  sinceMs: number,
): Promise<NetworkProblem | undefined> {
  // Without monitors that resolve names, name servers do not matter.
  if (problem === 'NETWORK_UNREACHABLE') return isCutOff() ? problem : undefined
  const found = await systemNameServers.problem(sinceMs, never)
  return NETWORK_PROBLEMS.find((one) => one === found?.code)
}

// Whether this agent's own network works.
import { NETWORK_PROBLEMS, type NetworkProblem } from '../contract/failure.ts'
import { systemNameServers } from '../network/dns/name-servers.ts'
import { isCutOff } from '../network/own-network.ts'
import type { Log } from '../process/log.ts'
import { OwnProblem } from './own-problem.ts'

const LOOK_EVERY_MS = 5000

const MESSAGES: Readonly<Record<NetworkProblem, string>> = {
  RESOLVER_UNREACHABLE: 'none of the name servers of this agent’s system answers',
  NETWORK_UNREACHABLE: 'this agent’s machine has no network',
}

/** Whether the problem is there, or another one; an answer since `sinceMs` speaks against it. */
export type LookAtNetwork = (
  problem: NetworkProblem,
  sinceMs: number,
) => Promise<NetworkProblem | undefined>

/** Starts with a network that works. */
export function createNetworkState(
  log: Log,
  onChange: () => void,
  look: LookAtNetwork = lookAtNetwork,
): OwnProblem<NetworkProblem> {
  return new OwnProblem(log, {
    signs: NETWORK_PROBLEMS,
    async look(sign, sinceMs) {
      const code = await look(sign, sinceMs)
      return code && { code, message: `${MESSAGES[code]}: monitors are errored` }
    },
    everyMs: LOOK_EVERY_MS,
    over: 'this agent’s own network works again',
    onChange,
  })
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

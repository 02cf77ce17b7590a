// What every command of the agent begins with: its settings or what is wrong with them, its log, its way out
// to the network.
import { type AgentConfig, type ConfigReading, readAgentConfig } from '../agent/config.ts'
import { createScrubber } from '../agent/redaction/scrub.ts'
import { EXIT_CONFIGURATION } from '../process/command-line.ts'
import { type Environment, type EnvironmentProblem, problemText } from '../process/env.ts'
import type { FaultReports } from '../process/faults/reports.ts'
import { createLog, isForPeople, type LineSink, type Log, mayColour } from '../process/log.ts'
import type { Dialler } from '../network/dial.ts'
import { createDialler } from '../network/dialler.ts'
import { createNetworkPolicy } from '../network/network-policy.ts'
import { createResolver } from '../network/dns/resolver.ts'

const { env, stdout, stderr } = process

/** Runs with these settings; a number is the exit code when the settings are no good. */
export function settings(changes: Environment = {}): ConfigReading | number {
  const reading = readAgentConfig({ env: { ...env, ...changes }, stdout })
  return reading.problems.length === 0 ? reading : refuse(reading.problems)
}

/** Prints what is wrong with the settings; the exit code. */
export function refuse(problems: readonly EnvironmentProblem[]): number {
  stderr.write(`vedette: ${problemText(problems)}`)
  return EXIT_CONFIGURATION
}

/** Makes a log that shows no secret of the settings; `faults` hears of the errors in it. */
export function logOf(
  { config, secrets }: ConfigReading,
  faults?: FaultReports,
  destination?: LineSink,
): Log {
  const scrubber = createScrubber({ secrets, headers: config.scrubHeaders })
  return createLog({
    ...(destination && { destination }),
    level: config.logLevel,
    pretty: isForPeople(stdout),
    colour: mayColour(stdout, env),
    scrubFields: (fields) => scrubber.value(fields),
    scrubText: (text) => scrubber.text(text),
    onError: faults && ((error) => faults.logged(error)),
  })
}

/** Makes the way out to the network, as the settings allow it. */
export function dialFrom(config: AgentConfig): (proxyUrl: string | undefined) => Dialler {
  const policy = createNetworkPolicy({
    blocked: [...config.blockedNetworks],
    allowed: [...config.allowedNetworks],
  })
  const resolver = createResolver({ useOsResolver: config.useOsResolver })
  return (proxyUrl: string | undefined) => createDialler({ policy, resolver, proxyUrl })
}

// Runs an agent as the process: from its settings to the exit code, with the signals in between.
import { EXIT } from '../process/exit-codes.ts'
import type { Log } from '../process/log.ts'
import { ListenError } from '../process/serve.ts'
import { onSignals } from '../process/signals.ts'
import { VERSION } from '../contract/versions.ts'
import { areEchoesForbidden, echoFix, echoRights } from '../network/native/echo-permission.ts'
import { Agent, type AgentOptions } from './agent.ts'
import type { ConfigReading } from './config.ts'
import { createDataFolder } from './data-folder.ts'
import { removeLeftovers } from './leftovers.ts'

/** What differs between an agent on a monitors file and one on a platform. */
export type AgentEnds = Pick<
  AgentOptions,
  'source' | 'sink' | 'clock' | 'faults' | 'ledger' | 'dataFolder' | 'onResult'
> & {
  /** Reads what is needed before the start; a number is the exit code when it is no good. */
  prepare?(): Promise<number | undefined>
  reload?(): void
}

/** All that a process with an agent in it is made of. */
export type RunAgentOptions = AgentEnds &
  Pick<AgentOptions, 'types' | 'dial' | 'scripts'> & {
    reading: ConfigReading
    log: Log
    /** Writes to standard error. */
    complain(text: string): void
  }

/** Runs the agent until a signal stops it; resolves with the exit code. */
export async function runAgent(options: RunAgentOptions): Promise<number> {
  const { reading, log } = options
  const dataFolder = options.dataFolder ?? createDataFolder(reading.config, log)
  const agent = new Agent({ ...options, dataFolder, config: reading.config })
  let isStopping = false
  // Before anything is read, which can take seconds.
  const offSignals = onSignals({
    stop: (signal) => {
      isStopping = true
      log.info({ signal }, 'stop signal received')
      void agent.stop()
    },
    // Where there is nothing to read again, SIGHUP shall not end the agent either.
    reload: () => options.reload?.(),
  })
  for (const { message } of reading.warnings) log.warn(message)
  const rights = echoRights()
  if (areEchoesForbidden(rights)) {
    log.warn(`ICMP monitors cannot run here, nor traceroutes by ICMP. ${echoFix(rights)}`)
  }
  try {
    const refused = await options.prepare?.()
    if (refused !== undefined && !isStopping) return refused
    // Without one, only runs of code need a folder; their results report the problem.
    if (reading.config.dataDir !== undefined) await dataFolder.look()
    if (!isStopping) await agent.start()
    // Compiling the modules leaves some 15 MiB of garbage, which a process that does little would keep for long.
    globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' })
    if (!isStopping) log.info({ version: VERSION, url: agent.url() }, 'agent started')
    if (!isStopping) void removeLeftovers(reading.config, log)
    if (!isStopping) void options.scripts?.prepare?.()
    return await agent.stopped
  } catch (error) {
    if (!(error instanceof ListenError)) throw error
    options.complain(`vedette: ${error.message}\n`)
    return EXIT.configuration
  } finally {
    dataFolder.stop()
    offSignals()
  }
}

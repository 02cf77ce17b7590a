// What commands on a platform have in common: settings, output, failures and their exit codes.
import { EXIT } from '../process/exit-codes.ts'
import { type Environment, problemText } from '../process/env.ts'
import { type ApplyTarget, readApplyTarget } from './config.ts'

/** Why a platform did not do what was asked, in a sentence for people, without secrets. */
export class PlatformError extends Error {
  /** `refused`: a retry of the same request cannot work. */
  readonly code: 'refused' | 'unreachable'

  constructor(code: 'refused' | 'unreachable', message: string) {
    super(message)
    this.name = 'PlatformError'
    this.code = code
  }
}

/** The settings and the output of a command. */
export interface CommandContext {
  env: Environment
  write: (text: string) => void
  complain: (text: string) => void
  colour: boolean
}

/** Resolves with the exit code of `work`, or with that of bad settings, a refusal or a missing platform. */
export async function onPlatform(
  command: string,
  { env, complain }: CommandContext,
  work: (target: ApplyTarget) => Promise<number>,
): Promise<number> {
  const { target, problems } = readApplyTarget(env)
  if (problems.length > 0) {
    complain(`vedette: ${problemText(problems, 'cli')}`)
    return EXIT.configuration
  }
  try {
    return await work(target)
  } catch (error) {
    if (!(error instanceof PlatformError)) throw error
    complain(`vedette ${command}: ${error.message}\n`)
    return error.code === 'refused' ? EXIT.configuration : EXIT.noPlatform
  }
}

// Loads a part of the program that a build of it may have been made without, like the platform in the images
// of the agent.

/**
 * The part, or undefined after a message on stderr if a package that it needs is not installed.
 * Rejects with anything else that is wrong with it. `name`: as the sentence calls it.
 */
export async function loadPart<T>(name: string, load: () => Promise<T>): Promise<T | undefined> {
  try {
    return await load()
  } catch (error) {
    const missing = missingPackage(error)
    if (missing === undefined) throw error
    process.stderr.write(
      `vedette: this installation does not include ${name} (the package ${missing} is missing); ` +
        'use the image vedette/platform, or install the project with all its packages\n',
    )
    return undefined
  }
}

/** Node.js names the package in its message alone. A missing file of our own is not one. */
function missingPackage(error: unknown): string | undefined {
  const { code, message } = error as { code?: unknown; message?: unknown }
  if (code !== 'ERR_MODULE_NOT_FOUND' || typeof message !== 'string') return undefined
  return /^Cannot find package '([^']+)'/.exec(message)?.[1]
}

// What a script has thrown, as it is reported to the agent. Runs in the processes of user scripts: plain CommonJS, no
// dependency, for every Node.js since 18.
'use strict'
const { inspect } = require('node:util')

const TEXT_CHARS_MAX = 16_384
const MISSING = new Set([
  'MODULE_NOT_FOUND',
  'ERR_MODULE_NOT_FOUND',
  'ERR_PACKAGE_PATH_NOT_EXPORTED',
])

/** `isParsed` is false where the code cannot be read, `loaded` where it could not even be begun. */
module.exports = function describeThrown(error) {
  const [message, stack] = [error?.message ?? error, error?.stack ?? ''].map((one) =>
    (typeof one === 'string' ? one : inspect(one)).slice(0, TEXT_CHARS_MAX),
  )
  const isParsed = !(error instanceof SyntaxError) || stack.includes('at JSON.parse')
  return { message, stack, isParsed, loaded: isParsed && !MISSING.has(error?.code) }
}

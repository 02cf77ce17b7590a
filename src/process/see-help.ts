// Names the pages of the manual under an error.

/** Pages named under one error. */
const TOPICS_MAX = 3

/** `See: vedette help tcp`, a line for each topic; nothing for none. */
export function seeHelp(topics: Iterable<string>): string {
  const named = [...new Set(topics)].slice(0, TOPICS_MAX)
  return named.map((topic) => `See: vedette help ${topic}\n`).join('')
}

/* What the panel knows: the table of parameters by name, the server's last answer, and the parameter that is being worked on (a filter
   doesn't take that one away). */
export const known = { table: null, state: null, touched: null };
